#include "oncebox/webhook/webhook_client.hpp"

#include <curl/curl.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/authority.hpp"
#include "oncebox/limits.hpp"

namespace oncebox::webhook {

namespace {

// What stands before servers closes connections that were idle for long, often after a minute.
constexpr long kMaxIdleSeconds = 45;

struct CurlCleanup {
  void operator()(CURL* handle) const noexcept { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const noexcept { curl_slist_free_all(list); }
};
using CurlHandle = std::unique_ptr<CURL, CurlCleanup>;
using CurlFields = std::unique_ptr<curl_slist, CurlCleanup>;

CurlHandle new_handle() {
  static const CURLcode initialised = curl_global_init(CURL_GLOBAL_DEFAULT);
  CurlHandle handle(initialised == CURLE_OK ? curl_easy_init() : nullptr);
  if (!handle) throw Error(ErrorCode::internal, "libcurl could not be initialised");
  return handle;
}

template <class Value>
void set(CURL* handle, CURLoption option, Value value) {
  if (curl_easy_setopt(handle, option, value) == CURLE_OK) return;
  throw Error(ErrorCode::internal, "libcurl refused an option");
}

bool is_control(char character) {
  const auto byte = static_cast<unsigned char>(character);
  return byte < 0x20 || byte == 0x7f;
}

void add(CurlFields& fields, std::string_view name, std::string_view value) {
  const std::string field = fmt::format("{}: {}", name, value);
  if (value.empty() || std::any_of(field.begin(), field.end(), is_control)) return;
  curl_slist* const longer = curl_slist_append(fields.get(), field.c_str());
  if (longer == nullptr) throw std::bad_alloc();
  (void)fields.release();
  fields.reset(longer);
}

CurlFields fields_of(const WebhookRequest& request, const WebhookSigner& signer, TimePoint now) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now).time_since_epoch().count();
  const std::string timestamp = std::to_string(seconds);
  CurlFields fields(curl_slist_append(nullptr, "Expect:"));  // no question before the body
  if (!fields) throw std::bad_alloc();
  add(fields, "Content-Type", request.content_type);
  add(fields, "webhook-id", request.id);
  add(fields, "webhook-timestamp", timestamp);
  add(fields, "webhook-signature", signer.sign(request.id, timestamp, request.body));
  for (const auto& [name, value] : request.fields) add(fields, name, value);
  return fields;
}

/// The answer's body, of which only the length counts.
struct Reading {
  std::size_t left;
  bool is_cut = false;

  static std::size_t write(char*, std::size_t size, std::size_t count, void* self) noexcept {
    auto& reading = *static_cast<Reading*>(self);
    const std::size_t bytes = size * count;
    reading.is_cut = bytes > reading.left;
    if (reading.is_cut) return bytes + 1;  // ends the transfer, also where a piece is empty
    reading.left -= bytes;
    return bytes;
  }
};

int ends_when_stopped(void* stop, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const std::stop_token*>(stop)->stop_requested() ? 1 : 0;
}

long milliseconds(Duration duration) { return static_cast<long>(duration.count()); }

}  // namespace

void WebhookClientOptions::validate() const {
  constexpr Duration kLongest = std::chrono::hours{1};
  require_in_range("connect_timeout", connect_timeout, Duration{1}, kLongest);
  require_in_range("timeout", timeout, Duration{1}, kLongest);
  require_in_range("max_answer_bytes", max_answer_bytes, 1, std::size_t{1} << 30);
}

WebhookAcceptance WebhookAnswer::acceptance() const noexcept {
  if (status >= 200 && status < 300) return WebhookAcceptance::taken;
  constexpr int kPassing[] = {404, 405, 408, 409, 425, 429};
  const bool passes =
      std::find(std::begin(kPassing), std::end(kPassing), status) != std::end(kPassing);
  const bool is_refusal = status >= 400 && status < 500 && !passes;
  return is_refusal ? WebhookAcceptance::refused : WebhookAcceptance::may_pass;
}

void require_webhook_url(std::string_view url) {
  if (!url.starts_with("https://") && !url.starts_with("http://")) {
    throw Error(ErrorCode::invalid_argument, "url: it begins with https:// or http://");
  }
  const std::string_view host = detail::authority_of(url);
  if (host.empty() || !detail::has_possible_port(host)) {
    throw Error(ErrorCode::invalid_argument,
                "url: it names a host, and perhaps a port from 1 to 65535");
  }
}

class WebhookClient::Impl {
 public:
  Impl(const WebhookClientOptions& options, const Clock& clock) : options_(options), clock_(clock) {
    options_.validate();
  }

  WebhookAnswer post(const WebhookRequest& request, const WebhookSigner& signer,
                     const std::stop_token& stop) {
    const CurlFields fields = fields_of(request, signer, clock_.now());
    CurlHandle handle = take_handle();
    Reading reading{.left = options_.max_answer_bytes};
    prepare(handle.get(), request, fields, reading, stop);
    const CURLcode code = curl_easy_perform(handle.get());
    WebhookAnswer answer;
    if (code == CURLE_OK || reading.is_cut) {
      answer = answer_of(handle.get());
    } else {
      answer.failure = curl_easy_strerror(code);
    }
    give_back(std::move(handle));
    return answer;
  }

 private:
  void prepare(CURL* handle, const WebhookRequest& request, const CurlFields& fields,
               Reading& reading, const std::stop_token& stop) const {
    curl_easy_reset(handle);  // keeps its connections
    set(handle, CURLOPT_URL, request.url.c_str());
    set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    set(handle, CURLOPT_NOSIGNAL, 1L);
    set(handle, CURLOPT_FOLLOWLOCATION, 0L);
    set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
    set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
    set(handle, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
    if (!options_.ca_file.empty()) set(handle, CURLOPT_CAINFO, options_.ca_file.c_str());
    set(handle, CURLOPT_USERAGENT, "oncebox");
    set(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options_.connect_timeout));
    set(handle, CURLOPT_TIMEOUT_MS, milliseconds(options_.timeout));
    set(handle, CURLOPT_MAXAGE_CONN, kMaxIdleSeconds);
    set(handle, CURLOPT_HTTPHEADER, fields.get());
    // Without a pointer libcurl would read from standard input.
    set(handle, CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(handle, CURLOPT_WRITEFUNCTION, &Reading::write);
    set(handle, CURLOPT_WRITEDATA, &reading);
    set(handle, CURLOPT_NOPROGRESS, 0L);
    set(handle, CURLOPT_XFERINFOFUNCTION, &ends_when_stopped);
    set(handle, CURLOPT_XFERINFODATA, &stop);
  }

  static WebhookAnswer answer_of(CURL* handle) {
    long status = 0;
    curl_off_t retry_after = 0;
    (void)curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(handle, CURLINFO_RETRY_AFTER, &retry_after);
    WebhookAnswer answer{.status = static_cast<int>(status)};
    if (retry_after > 0) {
      const auto longest = std::chrono::duration_cast<std::chrono::seconds>(limits::kMaxDelay);
      answer.retry_after =
          std::chrono::seconds{std::min<std::int64_t>(retry_after, longest.count())};
    }
    return answer;
  }

  CurlHandle take_handle() {
    {
      const detail::Lock lock(mutex_);
      if (!idle_.empty()) {
        CurlHandle handle = std::move(idle_.back());
        idle_.pop_back();
        return handle;
      }
    }
    return new_handle();
  }

  void give_back(CurlHandle handle) {
    const detail::Lock lock(mutex_);
    idle_.push_back(std::move(handle));
  }

  const WebhookClientOptions options_;
  const Clock& clock_;
  detail::Mutex mutex_;
  std::vector<CurlHandle> idle_ ONCEBOX_GUARDED_BY(mutex_);  // as many as were ever in use at once
};

WebhookClient::WebhookClient(const WebhookClientOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(options, clock)) {}
WebhookClient::~WebhookClient() = default;

WebhookAnswer WebhookClient::post(const WebhookRequest& request, const WebhookSigner& signer,
                                  const std::stop_token& stop) {
  return impl_->post(request, signer, stop);
}

}  // namespace oncebox::webhook
