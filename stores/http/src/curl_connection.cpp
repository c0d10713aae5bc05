#include "curl_connection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stop_token>
#include <string_view>

#include "curl_setup.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/error.hpp"

namespace oncebox::http {

namespace {

// A claim of 64 MiB of payloads may be several times as long in JSON; more than this is no answer
// of ours.
constexpr std::size_t kMaxAnswerBytes = std::size_t{512} << 20;

/// The body on its way out, and the answer on its way in.
struct Transfer {
  std::string_view body;
  std::size_t sent = 0;
  bool was_sent_whole = false;  ///< once at least
  Effect effect = Effect::reads;
  std::string answer = {};

  static std::size_t read(char* buffer, std::size_t size, std::size_t count, void* self) noexcept {
    auto& transfer = *static_cast<Transfer*>(self);
    const std::size_t bytes = std::min(size * count, transfer.body.size() - transfer.sent);
    std::memcpy(buffer, transfer.body.data() + transfer.sent, bytes);
    transfer.sent += bytes;
    return bytes;
  }

  // libcurl repeats a request by itself when a connection that it had kept turns out to be closed.
  // The service may have got it all the same.
  static int seek(void* self, curl_off_t offset, int origin) noexcept {
    auto& transfer = *static_cast<Transfer*>(self);
    const bool whole = transfer.sent == transfer.body.size();
    if (origin != SEEK_SET || (whole && transfer.effect == Effect::changes)) {
      return CURL_SEEKFUNC_FAIL;
    }
    transfer.was_sent_whole = transfer.was_sent_whole || whole;
    transfer.sent = static_cast<std::size_t>(offset);
    return CURL_SEEKFUNC_OK;
  }

  static std::size_t write(char* bytes, std::size_t size, std::size_t count, void* self) noexcept {
    auto& transfer = *static_cast<Transfer*>(self);
    if (transfer.answer.size() + size * count > kMaxAnswerBytes) return 0;
    try {
      transfer.answer.append(bytes, size * count);
    } catch (...) {
      return 0;
    }
    return size * count;
  }
};

bool is_local_fault(CURLcode code) {
  return code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE ||
         code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL;
}

// Whether it failed before the first byte of a request could go out.
bool is_before_sending(CURLcode code) {
  return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_CONNECT ||
         code == CURLE_SSL_CONNECT_ERROR || code == CURLE_PEER_FAILED_VERIFICATION;
}

ErrorCode error_code(CURLcode code, const Transfer& transfer, bool connected) {
  const bool has_effect = transfer.effect != Effect::reads;
  const bool is_sent_whole = transfer.sent == transfer.body.size();
  // A body is asked for once there is a connection. When it went out whole and the code is about
  // a connection, that is the one on which libcurl would have repeated it.
  const bool body_went_out = transfer.was_sent_whole || (is_sent_whole && !transfer.body.empty());
  if (has_effect && body_went_out) return ErrorCode::outcome_unknown;
  if (is_local_fault(code)) return ErrorCode::invalid_argument;
  if (is_before_sending(code) || !connected) return ErrorCode::unavailable;
  if (has_effect && is_sent_whole) return ErrorCode::outcome_unknown;
  return code == CURLE_OPERATION_TIMEDOUT ? ErrorCode::timeout : ErrorCode::unavailable;
}

}  // namespace

SteadyTime deadline_in(Duration time) { return SystemClock::shared().steady() + time; }

Duration time_left(SteadyTime deadline) {
  return std::chrono::ceil<Duration>(deadline - SystemClock::shared().steady());
}

class CurlConnection::Impl {
 public:
  explicit Impl(const Options& options)
      : options_(options), multi_(make_multi_handle()), handle_(make_easy_handle()) {}

  Reply send(const Request& request) {
    const CallOptions& limits = CallScope::current();
    limits.throw_if_over();
    const Duration left = time_left(limits.deadline_or(request.deadline));
    if (left <= Duration{0}) {
      throw Error(ErrorCode::timeout,
                  "there was no time left to send the request; raise call_timeout");
    }
    CURL* const handle = handle_.get();
    curl_easy_reset(handle);  // keeps the connection
    apply_options(handle, options_);
    Transfer transfer{.body = request.body, .effect = request.effect};
    const FieldList fields = fields_of(request);
    prepare(handle, request, fields, transfer);
    set(handle, CURLOPT_TIMEOUT_MS, static_cast<long>(left.count()));
    error_text_[0] = '\0';
    const CURLcode code = perform(handle, limits.stop);
    if (code != CURLE_OK) fail(code, transfer);
    long status = 0;
    curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
    return {.status = static_cast<int>(status), .body = std::move(transfer.answer)};
  }

 private:
  static FieldList fields_of(const Request& request) {
    FieldList fields;
    add_field(fields, "Expect:");  // no question before a large body: it is bounded
    add_field(fields, "Accept: application/json, application/problem+json");
    if (request.method == Method::post) add_field(fields, "Content-Type: application/json");
    if (!request.authorization.empty()) {
      add_field(fields, "Authorization: " + request.authorization);
    }
    return fields;
  }

  void prepare(CURL* handle, const Request& request, const FieldList& fields, Transfer& transfer) {
    set(handle, CURLOPT_URL, request.url.c_str());
    set(handle, CURLOPT_HTTPHEADER, fields.get());
    set(handle, CURLOPT_ERRORBUFFER, error_text_.data());
    set(handle, CURLOPT_WRITEFUNCTION, &Transfer::write);
    set(handle, CURLOPT_WRITEDATA, &transfer);
    if (request.method == Method::get) {
      set(handle, CURLOPT_HTTPGET, 1L);
      return;
    }
    set(handle, CURLOPT_POST, 1L);
    set(handle, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(handle, CURLOPT_READFUNCTION, &Transfer::read);
    set(handle, CURLOPT_READDATA, &transfer);
    set(handle, CURLOPT_SEEKFUNCTION, &Transfer::seek);
    set(handle, CURLOPT_SEEKDATA, &transfer);
  }

  /// As `curl_easy_perform`, but a stop ends it at once, as a lack of time.
  CURLcode perform(CURL* handle, const std::stop_token& stop) {
    CURLM* const multi = multi_.get();
    const std::stop_callback wake(stop, [multi] { curl_multi_wakeup(multi); });
    const Attached attached(multi, handle);
    for (;;) {
      int running = 0;
      if (curl_multi_perform(multi, &running) != CURLM_OK) return CURLE_FAILED_INIT;
      int left = 0;
      const CURLMsg* const ended = curl_multi_info_read(multi, &left);
      if (ended != nullptr) return ended->data.result;
      if (stop.stop_requested()) return CURLE_OPERATION_TIMEDOUT;
      constexpr int kLongestWaitMs = 1'000;
      curl_multi_poll(multi, nullptr, 0, kLongestWaitMs, nullptr);
    }
  }

  /// A transfer under way. Kept connections belong to the multi handle.
  class Attached {
   public:
    Attached(CURLM* multi, CURL* handle) : multi_(multi), handle_(handle) {
      curl_multi_add_handle(multi_, handle_);
    }
    ~Attached() { curl_multi_remove_handle(multi_, handle_); }
    Attached(const Attached&) = delete;
    Attached& operator=(const Attached&) = delete;

   private:
    CURLM* const multi_;
    CURL* const handle_;
  };

  [[noreturn]] void fail(CURLcode code, const Transfer& transfer) {
    double before_sending = 0;
    curl_easy_getinfo(handle_.get(), CURLINFO_PRETRANSFER_TIME, &before_sending);
    const char* const text = error_text_[0] != '\0' ? error_text_.data() : curl_easy_strerror(code);
    throw Error(error_code(code, transfer, before_sending > 0),
                fmt::format("the service at {} did not answer: {}", options_.url, text));
  }

  const Options& options_;
  const MultiHandle multi_;
  const EasyHandle handle_;
  std::array<char, CURL_ERROR_SIZE> error_text_{};
};

CurlConnection::CurlConnection(const Options& options) : impl_(std::make_unique<Impl>(options)) {}
CurlConnection::~CurlConnection() = default;

Reply CurlConnection::send(const Request& request) { return impl_->send(request); }

}  // namespace oncebox::http
