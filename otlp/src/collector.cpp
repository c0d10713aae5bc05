#include "collector.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <new>

#include "oncebox/error.hpp"

namespace oncebox::otlp {

namespace {

constexpr std::size_t kMaxAnswerBytes = std::size_t{64} << 10;

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

/// Empty when the address does not have it.
std::string part_of(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return {};
  const curl::Text owned(text);
  return text;
}

std::string host_of(const std::string& text) {
  const curl::UrlHandle url(curl_url());
  if (!url) throw std::bad_alloc();
  (void)curl_url_set(url.get(), CURLUPART_URL, text.c_str(), 0);
  const std::string scheme = part_of(url.get(), CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") {
    throw Error(ErrorCode::invalid_argument, "url: it is no address for HTTP or HTTPS");
  }
  return part_of(url.get(), CURLUPART_HOST);
}

// What the protocol of OTLP says of answers: these come from what stands between, or will pass.
bool is_passing(long status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

}  // namespace

Collector::Collector(const ExporterOptions& options)
    : host_(host_of(options.url)), handle_(curl::make_easy_handle()) {
  curl::add_field(fields_, "Content-Type: application/json");
  curl::add_field(fields_, "Expect:");
  for (const auto& [name, value] : options.headers) {
    const bool can_be_sent = !name.empty() && name.find(':') == name.npos && is_printable(name) &&
                             !value.empty() && is_printable(value);
    if (!can_be_sent) {
      throw Error(ErrorCode::invalid_argument,
                  "headers: a name or value is empty, or not printable ASCII");
    }
    curl::add_field(fields_, fmt::format("{}: {}", name, value));
  }
  CURL* const handle = handle_.get();
  curl::apply_basics(handle);
  curl::set(handle, CURLOPT_URL, options.url.c_str());
  curl::set(handle, CURLOPT_HTTPHEADER, fields_.get());
  curl::set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(options.timeout.count()));
  if (!options.ca_file.empty()) curl::set(handle, CURLOPT_CAINFO, options.ca_file.c_str());
  curl::set(handle, CURLOPT_WRITEFUNCTION, &Collector::take);
  curl::set(handle, CURLOPT_WRITEDATA, static_cast<void*>(this));
  curl::set(handle, CURLOPT_XFERINFOFUNCTION, &Collector::go_on);
  curl::set(handle, CURLOPT_XFERINFODATA, static_cast<void*>(this));
  curl::set(handle, CURLOPT_NOPROGRESS, 0L);
}

Collector::Answer Collector::post(const std::string& body) {
  CURL* const handle = handle_.get();
  body_.clear();
  has_read_enough_ = false;
  curl::set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl::set(handle, CURLOPT_POSTFIELDS, body.c_str());
  const CURLcode code = curl_easy_perform(handle);
  // What the collector says at length does not change what it has done with the batch.
  if (code == CURLE_OK || has_read_enough_) return answered();
  return {.may_be_taken_later = true, .problem = curl_easy_strerror(code)};
}

Collector::Answer Collector::answered() {
  long status = 0;
  curl::require_ok(curl_easy_getinfo(handle_.get(), CURLINFO_RESPONSE_CODE, &status));
  if (status >= 200 && status < 300) return {.taken = true, .body = body_};
  Answer answer{.may_be_taken_later = is_passing(status),
                .problem = fmt::format("the collector answered {}", status)};
  curl_off_t seconds = 0;
  curl::require_ok(curl_easy_getinfo(handle_.get(), CURLINFO_RETRY_AFTER, &seconds));
  if (seconds > 0) {
    constexpr curl_off_t kLongest = 3'600;
    answer.retry_after = std::chrono::seconds(std::min(seconds, kLongest));
  }
  return answer;
}

std::size_t Collector::take(char* data, std::size_t size, std::size_t count,
                            void* answer) noexcept {
  Collector& collector = *static_cast<Collector*>(answer);
  const std::size_t bytes = size * count;
  try {
    if (collector.body_.size() + bytes <= kMaxAnswerBytes) {
      collector.body_.append(data, bytes);
      return bytes;
    }
  } catch (const std::bad_alloc&) {
    // Too long for what is left.
  }
  collector.body_.clear();
  collector.has_read_enough_ = true;
  return 0;  // which ends the request
}

int Collector::go_on(void* collector, curl_off_t, curl_off_t, curl_off_t, curl_off_t) noexcept {
  const SteadyTime until = static_cast<Collector*>(collector)->give_up_at_;
  return std::chrono::steady_clock::now() < until ? 0 : 1;
}

}  // namespace oncebox::otlp
