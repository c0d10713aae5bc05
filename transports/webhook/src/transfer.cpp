#include "transfer.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <iterator>
#include <utility>

#include "oncebox/internal/authority.hpp"
#include "oncebox/internal/http_text.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/webhook/public_address.hpp"
#include "socket_address.hpp"

namespace oncebox::webhook {

namespace {

constexpr std::size_t kMaxHeadBytes = std::size_t{64} << 10;
constexpr Duration kLongestTimeout = std::chrono::hours{1};

constexpr std::string_view kPrivateAddress =
    "the address is of this machine or of a private network, and allow_private = true is not set";
constexpr std::string_view kUnknownProxy =
    "a proxy of the environment would connect: set proxy_checks_addresses = true (of a server: "
    "publishing.proxy_checks_addresses) if the proxy refuses private addresses, or set "
    "allow_private = true for the endpoint";

// They say where a request goes to, and where it ends: libcurl writes them.
constexpr std::string_view kFieldsOfTheConnection[] = {
    "Host",    "Connection", "Content-Length", "Transfer-Encoding", "Content-Type",    "Expect",
    "Trailer", "TE",         "Upgrade",        "Keep-Alive",        "Proxy-Connection"};

Duration bounded(const std::optional<Duration>& own, Duration usual) {
  return std::clamp(own.value_or(usual), Duration{1}, kLongestTimeout);
}

long milliseconds(Duration duration) { return static_cast<long>(duration.count()); }

bool is_control(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return byte < 0x20 || byte == 0x7f;
}

bool is_in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_in_name);
}

/// False when it is left out.
bool add_if_possible(curl::FieldList& fields, std::string_view name, std::string_view value) {
  if (!is_name(name) || value.empty() || std::any_of(value.begin(), value.end(), is_control)) {
    return false;
  }
  curl::add_field(fields, fmt::format("{}: {}", name, value));
  return true;
}

bool is_of_the_connection(std::string_view name) {
  return std::any_of(std::begin(kFieldsOfTheConnection), std::end(kFieldsOfTheConnection),
                     [&](auto other) { return detail::equal_ignoring_case(name, other); });
}

/// Empty when the address does not have it.
std::string part_of(CURLU* url, CURLUPart part, unsigned int flags = 0) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, flags) != CURLUE_OK) return {};
  const curl::Text owned(text);
  return text;
}

bool is_private_host(std::string_view host) {
  const bool is_ipv4 = host.find_first_not_of("0123456789.") == host.npos;
  const bool is_ipv6 = host.find(':') != host.npos;
  if (is_ipv4 || is_ipv6) return !is_public_address(host);
  return detail::is_loopback_host(host);
}

}  // namespace

Transfer::Transfer(WebhookRequest request, const WebhookClientOptions& options,
                   const EnvironmentProxy& proxy)
    : request_(std::move(request)),
      options_(options),
      timeout_(bounded(request_.timeout, options.timeout)) {
  read_url(proxy);
  if (problem_.empty()) make_fields();
}

void Transfer::read_url(const EnvironmentProxy& proxy) {
  const curl::UrlHandle url(curl_url());
  if (!url || curl_url_set(url.get(), CURLUPART_URL, request_.url.c_str(), 0) != CURLUE_OK) {
    problem_ = "the URL cannot be read";
    return;
  }
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "https" && scheme != "http") {
    problem_ = "the URL is neither of HTTPS nor of HTTP";
    return;
  }
  std::string host = part_of(url.get(), CURLUPART_HOST);
  std::transform(host.begin(), host.end(), host.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
  if (request_.lane.empty()) {
    const std::string port = part_of(url.get(), CURLUPART_PORT, CURLU_DEFAULT_PORT);
    request_.lane = fmt::format("{}://{}:{}", scheme, host, port);
  }
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  choose_way(scheme, host, proxy);
}

void Transfer::choose_way(std::string_view scheme, std::string_view host,
                          const EnvironmentProxy& proxy) {
  if (request_.allow_private) {
    way_ = Way::environment;
    return;
  }
  proxy_url_ = proxy.for_host(scheme, host);
  if (proxy_url_.empty()) return;
  way_ = Way::proxy;
  if (is_private_host(host)) {
    problem_ = kPrivateAddress;
  } else if (!options_.proxy_checks_addresses) {
    problem_ = kUnknownProxy;
  }
}

void Transfer::make_fields() {
  curl::add_field(fields_, "Expect:");  // no question before the body
  // Without one libcurl would say that it is a form.
  if (!add_if_possible(fields_, "Content-Type", request_.content_type)) {
    curl::add_field(fields_, "Content-Type:");
  }
  for (const auto& [name, value] : request_.fields) {
    if (!is_of_the_connection(name)) (void)add_if_possible(fields_, name, value);
  }
}

void Transfer::prepare(CURL* handle, Duration time_left) {
  using curl::set;
  curl_easy_reset(handle);
  curl::apply_basics(handle);
  // One request at a time on a connection: so the bounds of connections bound requests, too.
  set(handle, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  // Otherwise one that ends while its name is being resolved would hold up the thread until then.
  set(handle, CURLOPT_QUICK_EXIT, 1L);
  set(handle, CURLOPT_URL, request_.url.c_str());
  if (!options_.ca_file.empty()) set(handle, CURLOPT_CAINFO, options_.ca_file.c_str());
  const Duration connect_timeout = bounded(request_.connect_timeout, options_.connect_timeout);
  set(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(connect_timeout));
  set(handle, CURLOPT_TIMEOUT_MS, milliseconds(std::max(time_left, Duration{1})));
  set(handle, CURLOPT_HTTPHEADER, fields_.get());
  // Without a pointer libcurl would read from standard input.
  set(handle, CURLOPT_POSTFIELDS, request_.body.empty() ? "" : request_.body.data());
  set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request_.body.size()));
  set(handle, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  set(handle, CURLOPT_HEADERFUNCTION, &Transfer::take_line);
  set(handle, CURLOPT_HEADERDATA, this);
  set(handle, CURLOPT_WRITEFUNCTION, &Transfer::take_body);
  set(handle, CURLOPT_WRITEDATA, this);
  choose_connection(handle);
}

void Transfer::choose_connection(CURL* handle) {
  using curl::set;
  set(handle, CURLOPT_OPENSOCKETFUNCTION, &Transfer::open_socket);
  set(handle, CURLOPT_OPENSOCKETDATA, this);
  if (way_ == Way::environment) return;
  set(handle, CURLOPT_PROXY, proxy_url_.c_str());  // empty: none, whatever the environment says
  set(handle, CURLOPT_NOPROXY, "");
  set(handle, CURLOPT_PREREQFUNCTION, &Transfer::check_peer);
  set(handle, CURLOPT_PREREQDATA, this);
}

curl_socket_t Transfer::open_socket(void* self, curlsocktype, curl_sockaddr* address) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.way_ == Way::direct && !is_public_address(address->addr)) {
    transfer.met_private_address_ = true;
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

// A connection that was kept may have been made for a request that allows any address.
int Transfer::check_peer(void* self, char* peer, char*, int, int) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  if (transfer.way_ != Way::direct) return CURL_PREREQFUNC_OK;
  if (peer != nullptr && is_public_address(std::string_view(peer))) return CURL_PREREQFUNC_OK;
  transfer.met_private_address_ = true;
  return CURL_PREREQFUNC_ABORT;
}

std::size_t Transfer::take_line(char* text, std::size_t size, std::size_t count,
                                void* self) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::string_view line(text, size * count);
  transfer.head_bytes_ += line.size();
  transfer.is_head_too_long_ = transfer.head_bytes_ > kMaxHeadBytes;
  if (transfer.is_head_too_long_) return CURL_WRITEFUNC_ERROR;
  constexpr std::string_view kName = "Retry-After:";
  // What came before belongs to an answer on the way to this one.
  if (line.starts_with("HTTP/")) transfer.retry_after_.clear();
  if (!detail::equal_ignoring_case(line.substr(0, kName.size()), kName)) return line.size();
  try {
    const std::string_view value = line.substr(kName.size());
    transfer.retry_after_ =
        detail::without_blanks_around(value.substr(0, value.find_first_of("\r\n")));
  } catch (...) {
    return CURL_WRITEFUNC_ERROR;
  }
  return line.size();
}

std::size_t Transfer::take_body(char* bytes, std::size_t size, std::size_t count,
                                void* self) noexcept {
  auto& transfer = *static_cast<Transfer*>(self);
  const std::size_t room = transfer.options_.max_answer_bytes - transfer.body_bytes_;
  const std::size_t taken = std::min(size * count, room);
  try {
    if (transfer.request_.keep_answer) transfer.body_.append(bytes, taken);
  } catch (...) {
    return CURL_WRITEFUNC_ERROR;
  }
  transfer.body_bytes_ += taken;
  transfer.is_cut_ = taken < size * count;
  return transfer.is_cut_ ? CURL_WRITEFUNC_ERROR : taken;
}

WebhookAnswer Transfer::answer(CURL* handle, CURLcode code, const Clock& clock) {
  if (code != CURLE_OK && !is_cut_) return {.failure = failure_of(code)};
  long status = 0;
  (void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return {.status = static_cast<int>(status),
          .retry_after = retry_after(clock),
          .body = std::move(body_),
          .is_cut = is_cut_};
}

std::string Transfer::failure_of(CURLcode code) const {
  const bool could_not_connect = code == CURLE_COULDNT_CONNECT || code == CURLE_ABORTED_BY_CALLBACK;
  if (met_private_address_ && could_not_connect) return std::string(kPrivateAddress);
  if (is_head_too_long_) return "the head of the answer is too long";
  return curl_easy_strerror(code);
}

std::optional<Duration> Transfer::retry_after(const Clock& clock) const {
  constexpr auto kLongest = std::chrono::duration_cast<std::chrono::seconds>(limits::kMaxDelay);
  const std::string_view text = retry_after_;
  std::int64_t seconds = 0;
  if (!text.empty() && text.find_first_not_of("0123456789") == text.npos) {
    const auto read = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (read.ec != std::errc{}) seconds = kLongest.count();  // so long that it is no number
  } else if (!text.empty() && !is_control(text.front()) && text.front() >= 'A') {
    const std::time_t date = curl_getdate(retry_after_.c_str(), nullptr);
    const auto now = std::chrono::floor<std::chrono::seconds>(clock.now());
    if (date >= 0) seconds = std::int64_t{date} - now.time_since_epoch().count();
  }
  if (seconds <= 0) return std::nullopt;
  return std::chrono::seconds{std::min<std::int64_t>(seconds, kLongest.count())};
}

}  // namespace oncebox::webhook
