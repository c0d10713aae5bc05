#include "oncebox/idempotent_http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>

#include "oncebox/content_hash.hpp"
#include "oncebox/detail/key_gate.hpp"
#include "oncebox/error.hpp"

namespace oncebox {

namespace {

constexpr std::string_view kFingerprintScheme = "sha256:";
constexpr Duration kLongestRetryAfter = std::chrono::seconds{5};

bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view without_spaces_around(std::string_view text) noexcept {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

bool is_printable_ascii(char c) noexcept { return c >= 0x20 && c <= 0x7e; }

std::optional<std::string> parse_quoted_key(std::string_view value) {
  std::string key;
  for (std::size_t i = 1; i < value.size(); ++i) {
    char c = value[i];
    if (c == '"') {
      const std::string_view rest = without_spaces_around(value.substr(i + 1));
      return rest.empty() || rest.front() == ';' ? std::optional(std::move(key)) : std::nullopt;
    }
    if (c == '\\') {
      if (++i == value.size()) break;
      c = value[i];
      if (c != '"' && c != '\\') return std::nullopt;
    }
    if (!is_printable_ascii(c)) return std::nullopt;
    key += c;
  }
  return std::nullopt;
}

std::optional<std::string> parse_bare_key(std::string_view value) {
  constexpr std::string_view kRefused = " \"\\,;";
  const bool taken = std::all_of(value.begin(), value.end(), [&](char c) {
    return is_printable_ascii(c) && kRefused.find(c) == std::string_view::npos;
  });
  return taken ? std::optional(std::string(value)) : std::nullopt;
}

// So that the parts of a stored key cannot run into each other.
std::string without_colons(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '%')
      escaped += "%25";
    else if (c == ':')
      escaped += "%3A";
    else
      escaped += c;
  }
  return escaped;
}

std::string fingerprint_of(const HttpRequestView& request) {
  const std::string named = fmt::format("{}\n{}\n{}\n{}\n", request.method.size(), request.method,
                                        request.target.size(), request.target);
  return std::string(kFingerprintScheme) + to_hex(sha256(named + std::string(request.body)));
}

// What is stored with a key: one line of JSON, then the bytes of the body.
struct StoredAnswer {
  std::string fingerprint;
  std::optional<HttpAnswer> answer;  ///< nothing: it was too large
};

std::string write_stored(const StoredAnswer& stored) {
  boost::json::object head{{"fingerprint", stored.fingerprint}};
  if (!stored.answer) return boost::json::serialize(head) + "\n";
  head["status"] = stored.answer->status;
  boost::json::array& headers = head["headers"].emplace_array();
  for (const auto& [name, value] : stored.answer->headers) {
    headers.push_back(boost::json::array{name, value});
  }
  return boost::json::serialize(head) + "\n" + stored.answer->body;
}

StoredAnswer read_stored(std::string_view text) {
  try {
    const std::size_t end = text.find('\n');
    boost::json::parse_options options;
    options.allow_invalid_utf8 = true;
    const boost::json::value parsed = boost::json::parse(text.substr(0, end), {}, options);
    const boost::json::object& head = parsed.as_object();
    StoredAnswer stored{.fingerprint = std::string(head.at("fingerprint").as_string()),
                        .answer = std::nullopt};
    if (!head.contains("status")) return stored;
    HttpAnswer& answer = stored.answer.emplace();
    answer.status = head.at("status").to_number<int>();
    for (const boost::json::value& header : head.at("headers").as_array()) {
      const boost::json::array& pair = header.as_array();
      answer.headers.emplace_back(std::string(pair.at(0).as_string()),
                                  std::string(pair.at(1).as_string()));
    }
    answer.body = end == std::string_view::npos ? "" : std::string(text.substr(end + 1));
    return stored;
  } catch (const std::exception&) {
    throw Error(ErrorCode::corrupt,
                "the answer stored with an idempotency key cannot be read; another program may use "
                "the same key prefix");
  }
}

struct Problem {
  int status;
  std::string_view title;
  std::string_view detail;
};

constexpr Problem kMissing{400, "Idempotency-Key is missing",
                           "This operation requires the header Idempotency-Key."};
constexpr Problem kMalformed{400, "Idempotency-Key is malformed",
                             "The header must be one string, not blank and not too long."};
constexpr Problem kReused{422, "Idempotency-Key is already used",
                          "The key was used for another request. Use a new one for each."};
constexpr Problem kRunning{409, "A request with this Idempotency-Key is running",
                           "Repeat the request later to get its answer."};
constexpr Problem kTooLarge{409, "The answer to this Idempotency-Key was not kept",
                            "The operation took place, but its answer was too large to be "
                            "repeated."};

}  // namespace

std::optional<std::string_view> HttpAnswer::header(std::string_view name) const noexcept {
  for (const auto& [own_name, value] : headers) {
    if (equal_ignoring_case(own_name, name)) return value;
  }
  return std::nullopt;
}

bool is_final_status(int status) noexcept {
  return status < 500 && status != 408 && status != 425 && status != 429;
}

std::optional<std::string> parse_idempotency_key(std::string_view value) {
  value = without_spaces_around(value);
  if (value.empty()) return std::nullopt;
  std::optional<std::string> key =
      value.front() == '"' ? parse_quoted_key(value) : parse_bare_key(value);
  if (key && without_spaces_around(*key).empty()) key.reset();
  return key;
}

void IdempotentHttpOptions::validate() const {
  require_in_range("lease of a key", lease, limits::kMinKeyLease, limits::kMaxKeyLease);
  require_in_range("retention of a key", retention, Duration{1}, limits::kMaxRetention);
  require_in_range("most bytes of a stored answer", max_answer_bytes, 0, limits::kMaxResultBytes);
  require_in_range("greatest length of a key", max_key_length, 1, kMaxNameCodePoints);
  if (!is_final) throw Error(ErrorCode::invalid_argument, "is_final must be a function");
}

class IdempotentHttp::Impl {
 public:
  Impl(IdempotencyStore& keys, const IdempotentHttpOptions& options, Logger* logger,
       const Clock* clock)
      : keys_(keys),
        options_(options),
        clock_(clock != nullptr ? *clock : system_clock_),
        gate_(
            keys,
            ReceiverOptions{.name = "http", .lease = options.lease, .retention = options.retention},
            logger, clock) {}

  HttpAnswer handle(const HttpRequestView& request, const Operation& operation,
                    const std::stop_token& stop);

 private:
  [[nodiscard]] std::optional<IdempotencyKey> stored_key(const HttpRequestView& request) const;
  HttpAnswer run(const IdempotencyKey& key, const std::string& fingerprint,
                 const BeginOutcome& begun, const Operation& operation,
                 const std::stop_token& stop);
  [[nodiscard]] HttpAnswer replay(const std::optional<std::string>& result,
                                  const std::string& fingerprint) const;
  [[nodiscard]] std::string to_store(const HttpAnswer& answer,
                                     const std::string& fingerprint) const;
  [[nodiscard]] HttpAnswer answer_running(const IdempotencyKey& key, const BeginOutcome& begun,
                                          const std::string& fingerprint) const;
  [[nodiscard]] HttpAnswer refuse(const Problem& problem) const;
  [[nodiscard]] bool keeps_header(std::string_view name) const;

  IdempotencyStore& keys_;
  const IdempotentHttpOptions options_;
  const SystemClock system_clock_;
  const Clock& clock_;
  detail::KeyGate gate_;
};

HttpAnswer IdempotentHttp::Impl::handle(const HttpRequestView& request, const Operation& operation,
                                        const std::stop_token& stop) {
  if (!request.idempotency_key) {
    if (options_.key_required) return refuse(kMissing);
    ReceiveContext context({}, 1, stop);
    return operation(context);
  }
  const std::optional<IdempotencyKey> key = stored_key(request);
  if (!key) return refuse(kMalformed);
  const std::string fingerprint = fingerprint_of(request);
  const BeginOutcome begun = gate_.enter(*key, fingerprint, stop);
  switch (begun.status) {
    case BeginStatus::acquired:
      return run(*key, fingerprint, begun, operation, stop);
    case BeginStatus::processed:
      return replay(begun.result, fingerprint);
    case BeginStatus::busy:
    case BeginStatus::failed:  // never asked for: a failed key is begun again
      break;
  }
  return answer_running(*key, begun, fingerprint);
}

std::optional<IdempotencyKey> IdempotentHttp::Impl::stored_key(
    const HttpRequestView& request) const {
  const std::optional<std::string> given = parse_idempotency_key(*request.idempotency_key);
  if (!given || given->size() > options_.max_key_length) return std::nullopt;
  return IdempotencyKey(without_colons(options_.key_prefix) + ":" + without_colons(request.scope) +
                        ":" + *given);
}

HttpAnswer IdempotentHttp::Impl::run(const IdempotencyKey& key, const std::string& fingerprint,
                                     const BeginOutcome& begun, const Operation& operation,
                                     const std::stop_token& stop) {
  detail::HeldKey held(gate_, key, begun, stop);
  HttpAnswer answer;
  try {
    answer = operation(held.context());
  } catch (...) {
    held.fail_with_current_exception();
    throw;
  }
  if (options_.is_final(answer.status))
    held.complete(to_store(answer, fingerprint));
  else
    held.release();
  return answer;
}

std::string IdempotentHttp::Impl::to_store(const HttpAnswer& answer,
                                           const std::string& fingerprint) const {
  HttpAnswer kept{.status = answer.status, .headers = {}, .body = answer.body};
  for (const HttpAnswer::Header& header : answer.headers) {
    if (keeps_header(header.first)) kept.headers.push_back(header);
  }
  std::string text = write_stored({.fingerprint = fingerprint, .answer = std::move(kept)});
  if (text.size() <= options_.max_answer_bytes) return text;
  return write_stored({.fingerprint = fingerprint, .answer = std::nullopt});
}

HttpAnswer IdempotentHttp::Impl::replay(const std::optional<std::string>& result,
                                        const std::string& fingerprint) const {
  if (!result) return refuse(kTooLarge);  // or somebody has completed the key in another way
  StoredAnswer stored = read_stored(*result);
  if (stored.fingerprint != fingerprint) return refuse(kReused);
  if (!stored.answer) return refuse(kTooLarge);
  if (!options_.replay_header.empty()) {
    stored.answer->headers.emplace_back(options_.replay_header, "true");
  }
  return *std::move(stored.answer);
}

// The key may have ended since; then the other request is told to come again, which is no lie.
HttpAnswer IdempotentHttp::Impl::answer_running(const IdempotencyKey& key,
                                                const BeginOutcome& begun,
                                                const std::string& fingerprint) const {
  const std::optional<KeyRecord> record = keys_.find(key);
  const bool comparable = record && record->owner.starts_with(kFingerprintScheme);
  if (comparable && record->owner != fingerprint) return refuse(kReused);
  HttpAnswer answer = refuse(kRunning);
  const Duration left = begun.lease_until.value_or(clock_.now()) - clock_.now();
  const auto seconds =
      std::chrono::ceil<std::chrono::seconds>(std::clamp(left, Duration{1}, kLongestRetryAfter));
  answer.headers.emplace_back("Retry-After", std::to_string(seconds.count()));
  return answer;
}

HttpAnswer IdempotentHttp::Impl::refuse(const Problem& problem) const {
  const std::string& url = options_.documentation_url;
  const boost::json::object body{{"type", url.empty() ? std::string("about:blank") : url},
                                 {"title", problem.title},
                                 {"status", problem.status},
                                 {"detail", problem.detail}};
  HttpAnswer answer{.status = problem.status,
                    .headers = {{"Content-Type", "application/problem+json"}},
                    .body = boost::json::serialize(body)};
  if (!url.empty()) answer.headers.emplace_back("Link", "<" + url + ">; rel=\"describedby\"");
  return answer;
}

bool IdempotentHttp::Impl::keeps_header(std::string_view name) const {
  return std::any_of(options_.kept_headers.begin(), options_.kept_headers.end(),
                     [&](const std::string& kept) { return equal_ignoring_case(kept, name); });
}

IdempotentHttp::IdempotentHttp(IdempotencyStore& keys, const IdempotentHttpOptions& options,
                               Logger& logger, const Clock& clock)
    : impl_((options.validate(), std::make_unique<Impl>(keys, options, &logger, &clock))) {}

IdempotentHttp::IdempotentHttp(IdempotencyStore& keys, const IdempotentHttpOptions& options)
    : impl_((options.validate(), std::make_unique<Impl>(keys, options, nullptr, nullptr))) {}

IdempotentHttp::~IdempotentHttp() = default;

HttpAnswer IdempotentHttp::handle(const HttpRequestView& request, const Operation& operation,
                                  const std::stop_token& stop) {
  return impl_->handle(request, operation, stop);
}

}  // namespace oncebox
