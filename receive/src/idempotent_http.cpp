#include "oncebox/receive/idempotent_http.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>

#include "oncebox/content_hash.hpp"
#include "oncebox/error.hpp"
#include "oncebox/internal/http_text.hpp"
#include "oncebox/receive/detail/key_gate.hpp"

namespace oncebox {

namespace {

using detail::equal_ignoring_case;
using detail::without_blanks_around;

constexpr std::string_view kFingerprintScheme = "sha256:";
constexpr Duration kLongestRetryAfter = std::chrono::seconds{5};

// Those of one connection (RFC 9110, 7.6.1), and the length, which the framework counts.
constexpr std::string_view kOfTheFramework =
    "Connection, Content-Length, Keep-Alive, Proxy-Authenticate, Proxy-Authentication-Info, "
    "Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade";

/// Whether a list such as "close, X-Hop" has the name in it.
bool lists(std::string_view list, std::string_view name) noexcept {
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    if (equal_ignoring_case(without_blanks_around(list.substr(0, comma)), name)) return true;
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return false;
}

bool is_printable_ascii(char c) noexcept { return c >= 0x20 && c <= 0x7e; }

std::optional<std::string> parse_quoted_key(std::string_view value) {
  std::string key;
  for (std::size_t i = 1; i < value.size(); ++i) {
    char c = value[i];
    if (c == '"') {
      const std::string_view rest = without_blanks_around(value.substr(i + 1));
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
  std::optional<HttpAnswer> answer;  ///< nothing: it was not kept
};

/// Of an answer that is not kept.
std::string write_fact(const std::string& fingerprint) {
  return boost::json::serialize(boost::json::object{{"fingerprint", fingerprint}}) + "\n";
}

std::string write_head(const std::string& fingerprint, int status,
                       const std::vector<const HttpAnswer::Header*>& headers) {
  boost::json::object head{{"fingerprint", fingerprint}, {"status", status}};
  boost::json::array& kept = head["headers"].emplace_array();
  for (const HttpAnswer::Header* header : headers) {
    kept.push_back(boost::json::array{header->first, header->second});
  }
  return boost::json::serialize(head) + "\n";
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
constexpr Problem kNotKept{409, "The answer to this Idempotency-Key was not kept",
                           "The operation took place, but its answer could not be stored, and "
                           "cannot be repeated."};

ReceiverOptions receiver_options(const IdempotentHttpOptions& options) {
  return {.name = "http",
          .lease = options.lease,
          .retention = options.retention,
          .verdict_tries = options.verdict_tries};
}

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
  value = without_blanks_around(value);
  if (value.empty()) return std::nullopt;
  std::optional<std::string> key =
      value.front() == '"' ? parse_quoted_key(value) : parse_bare_key(value);
  if (key && without_blanks_around(*key).empty()) key.reset();
  return key;
}

void IdempotentHttpOptions::validate() const {
  receiver_options(*this).validate();
  require_in_range("most bytes of a stored answer", max_answer_bytes, 0, limits::kMaxResultBytes);
  require_in_range("greatest length of a key", max_key_length, 1, kMaxNameCodePoints);
  if (!is_final) throw Error(ErrorCode::invalid_argument, "is_final must be a function");
  const bool linkable = std::all_of(documentation_url.begin(), documentation_url.end(), [](char c) {
    return is_printable_ascii(c) && c != ' ' && c != '<' && c != '>';
  });
  if (!linkable) throw Error(ErrorCode::invalid_argument, "documentation_url must be a URL");
}

class IdempotentHttp::Impl {
 public:
  Impl(IdempotencyStore& keys, const IdempotentHttpOptions& options,
       const Surroundings& surroundings)
      : keys_(keys),
        options_(options),
        clock_(surroundings.clock),
        gate_(keys, receiver_options(options), &surroundings.logger, &surroundings.clock) {}

  HttpAnswer handle(const HttpRequestView& request, const Operation& operation,
                    const std::stop_token& stop);

 private:
  [[nodiscard]] std::optional<IdempotencyKey> stored_key(const HttpRequestView& request) const;
  HttpAnswer run(const IdempotencyKey& key, const std::string& fingerprint,
                 const BeginOutcome& begun, const Operation& operation,
                 const std::stop_token& stop);
  [[nodiscard]] HttpAnswer replay(const std::optional<std::string>& result,
                                  const std::string& fingerprint) const;
  [[nodiscard]] HttpAnswer replay(HttpAnswer stored) const;
  [[nodiscard]] HttpAnswer answer_after_lost_lease(const IdempotencyKey& key,
                                                   const std::string& fingerprint,
                                                   HttpAnswer own) const;
  [[nodiscard]] std::optional<std::string> to_store(const HttpAnswer& answer,
                                                    const std::string& fingerprint) const;
  [[nodiscard]] HttpAnswer answer_running(const IdempotencyKey& key, const BeginOutcome& begun,
                                          const std::string& fingerprint) const;
  [[nodiscard]] HttpAnswer refuse(const Problem& problem) const;
  [[nodiscard]] std::vector<const HttpAnswer::Header*> kept_headers(const HttpAnswer& answer) const;

  IdempotencyStore& keys_;
  const IdempotentHttpOptions options_;
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
  std::string result;
  HttpAnswer answer;
  try {
    result = write_fact(fingerprint);
    answer = operation(held.context());
  } catch (...) {
    held.fail_with_current_exception();
    throw;
  }
  // It has taken place: whatever goes wrong from here on must not make it run again.
  try {
    if (!options_.is_final(answer.status)) {
      held.release();
      return answer;
    }
    if (std::optional<std::string> text = to_store(answer, fingerprint)) result = *std::move(text);
  } catch (...) {
    held.warn_of_result();
  }
  if (held.complete(std::move(result))) return answer;
  return answer_after_lost_lease(key, fingerprint, std::move(answer));
}

/// Nothing when it is too large, which is known before the body is copied.
std::optional<std::string> IdempotentHttp::Impl::to_store(const HttpAnswer& answer,
                                                          const std::string& fingerprint) const {
  if (answer.body.size() > options_.max_answer_bytes) return std::nullopt;
  std::string text = write_head(fingerprint, answer.status, kept_headers(answer));
  const std::size_t size = text.size() + answer.body.size();
  if (size > options_.max_answer_bytes) return std::nullopt;
  text.reserve(size);
  text += answer.body;
  return text;
}

HttpAnswer IdempotentHttp::Impl::replay(const std::optional<std::string>& result,
                                        const std::string& fingerprint) const {
  if (!result) return refuse(kNotKept);  // or somebody has completed the key in another way
  StoredAnswer stored = read_stored(*result);
  if (stored.fingerprint != fingerprint) return refuse(kReused);
  if (!stored.answer) return refuse(kNotKept);
  return replay(*std::move(stored.answer));
}

HttpAnswer IdempotentHttp::Impl::replay(HttpAnswer stored) const {
  if (!options_.replay_header.empty()) stored.headers.emplace_back(options_.replay_header, "true");
  return stored;
}

// Somebody else began the key meanwhile. If they are done, theirs is what all later ones get, and
// this client should not be told another thing. If not, or for another request, its own is true.
HttpAnswer IdempotentHttp::Impl::answer_after_lost_lease(const IdempotencyKey& key,
                                                         const std::string& fingerprint,
                                                         HttpAnswer own) const {
  try {
    const std::optional<KeyRecord> record = keys_.find(key);
    if (!record || record->status != KeyStatus::processed || !record->result) return own;
    StoredAnswer stored = read_stored(*record->result);
    if (!stored.answer || stored.fingerprint != fingerprint) return own;
    return replay(*std::move(stored.answer));
  } catch (const std::exception&) {
    return own;  // the loss was logged
  }
}

// The key may have ended since; then the other request is told to come again, which is no lie.
HttpAnswer IdempotentHttp::Impl::answer_running(const IdempotencyKey& key,
                                                const BeginOutcome& begun,
                                                const std::string& fingerprint) const {
  const std::optional<KeyRecord> record = keys_.find(key);
  // A key that is free again binds nobody.
  const bool bound = record && (record->status == KeyStatus::in_progress ||
                                record->status == KeyStatus::processed);
  const bool comparable = bound && record->owner.starts_with(kFingerprintScheme);
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

std::vector<const HttpAnswer::Header*> IdempotentHttp::Impl::kept_headers(
    const HttpAnswer& answer) const {
  const auto is_dropped = [&](std::string_view name) {
    const auto is_it = [&](std::string_view other) { return equal_ignoring_case(other, name); };
    return lists(kOfTheFramework, name) ||
           std::any_of(options_.dropped_headers.begin(), options_.dropped_headers.end(), is_it) ||
           std::any_of(answer.headers.begin(), answer.headers.end(),
                       [&](const HttpAnswer::Header& header) {
                         return equal_ignoring_case(header.first, "Connection") &&
                                lists(header.second, name);
                       });
  };
  std::vector<const HttpAnswer::Header*> kept;
  for (const HttpAnswer::Header& header : answer.headers) {
    if (!is_dropped(header.first)) kept.push_back(&header);
  }
  return kept;
}

IdempotentHttp::IdempotentHttp(IdempotencyStore& keys, const IdempotentHttpOptions& options,
                               const Surroundings& surroundings)
    : impl_((options.validate(), std::make_unique<Impl>(keys, options, surroundings))) {}

IdempotentHttp::~IdempotentHttp() = default;

HttpAnswer IdempotentHttp::handle(const HttpRequestView& request, const Operation& operation,
                                  const std::stop_token& stop) {
  return impl_->handle(request, operation, stop);
}

}  // namespace oncebox
