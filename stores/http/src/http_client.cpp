#include "http_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <fstream>
#include <iterator>
#include <random>

#include "json_fields.hpp"
#include "oncebox/driver/call_scope.hpp"
#include "oncebox/internal/pause.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/problem.hpp"

namespace oncebox::http {

namespace {

namespace json = boost::json;

constexpr int kOk = 200;
constexpr int kUnauthorized = 401;
constexpr Duration kMaxPause = std::chrono::seconds{1};
constexpr std::size_t kMaxTokenBytes = 8 * 1024;

std::string trimmed(std::string text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), is_space));
  return text;
}

void require_token(std::string_view token) {
  const auto is_visible = [](char c) { return c > ' ' && c < '\x7f'; };
  if (token.size() > kMaxTokenBytes || !std::all_of(token.begin(), token.end(), is_visible)) {
    throw Error(ErrorCode::invalid_argument,
                "the token has characters that a token cannot have, or is too long");
  }
}

std::string read_token_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string content(kMaxTokenBytes, '\0');
  file.read(content.data(), static_cast<std::streamsize>(content.size()));
  if (file.bad() || (!file && !file.eof())) {
    throw Error(ErrorCode::not_found, fmt::format("cannot read the token file {}", path.string()));
  }
  content.resize(static_cast<std::size_t>(file.gcount()));
  std::string token = trimmed(std::move(content));
  require_token(token);
  return token;
}

std::string first_token(const Options& options) {
  if (!options.token_file.empty()) return read_token_file(options.token_file);
  require_token(options.token);
  return options.token;
}

std::string without_slash(std::string url) {
  while (url.ends_with('/')) url.pop_back();
  return url;
}

// Such an error says that nothing has changed, so that any call can be made again.
bool changed_nothing(ErrorCode code) {
  return code == ErrorCode::overloaded || code == ErrorCode::unavailable ||
         code == ErrorCode::timeout || code == ErrorCode::cancelled;
}

StoreDescription read_description(const json::object& store) {
  StoreDescription description{.name = text_of(store, "name"), .health = health_of(store)};
  if (const json::value* const value = store.if_contains("capabilities");
      value != nullptr && value->is_object()) {
    const json::object& facts = value->get_object();
    Capabilities& capabilities = description.capabilities;
    capabilities.durable = is_true(facts, "durable");
    capabilities.notifies = is_true(facts, "notifies");
    capabilities.native_ttl = is_true(facts, "nativeTtl");
    if (const json::value* const most = facts.if_contains("maxPayloadBytes")) {
      json::error_code no_number;
      capabilities.max_payload_bytes = most->to_number<std::size_t>(no_number);
    }
  }
  // Whoever reaches the service can use it.
  description.capabilities.shared_between_processes = true;
  return description;
}

std::optional<StoreDescription> find_description(std::string_view body, std::string_view name) {
  json::error_code not_json;
  const json::value answer = json::parse(body, not_json);
  const json::value* const stores =
      !not_json && answer.is_object() ? answer.get_object().if_contains("stores") : nullptr;
  if (stores == nullptr || !stores->is_array()) {
    throw Error(ErrorCode::internal, "it is no list of stores");
  }
  for (const json::value& store : stores->get_array()) {
    if (!store.is_object()) continue;
    const json::object& entry = store.get_object();
    const bool is_it = name.empty() ? is_true(entry, "default") : text_of(entry, "name") == name;
    if (is_it) return read_description(entry);
  }
  return std::nullopt;
}

}  // namespace

/// A connection for one request. One that failed is not used again.
class HttpClient::Lease {
 public:
  Lease(HttpClient& client, SteadyTime deadline)
      : client_(client), connection_(client.take(deadline)) {}
  ~Lease() { client_.give_back(std::move(connection_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  [[nodiscard]] Reply send(const Request& request) {
    try {
      return connection_->send(request);
    } catch (...) {
      connection_.reset();
      throw;
    }
  }

 private:
  HttpClient& client_;
  std::unique_ptr<CurlConnection> connection_;
};

HttpClient::HttpClient(const Options& options)
    : options_(options),
      root_(without_slash(options.url) + "/v1"),
      store_(options.store.empty() ? root_
                                   : root_ + "/stores/" + wire::percent_encode(options.store)),
      token_(first_token(options)) {}

HttpClient::~HttpClient() = default;

std::string HttpClient::call(const ApiCall& call) {
  return with_retries({.method = call.method,
                       .url = store_ + call.path,
                       .body = call.body,
                       .effect = call.effect,
                       .deadline = deadline_in(options_.call_timeout)});
}

StoreDescription HttpClient::describe(Duration within) {
  const bool is_named = !options_.store.empty();
  // There may be too many for one answer; the default one stands first.
  const std::string which = is_named ? "?name=" + wire::percent_encode(options_.store) : "";
  const std::string body =
      with_retries({.url = root_ + "/stores" + which, .deadline = deadline_in(within)});
  std::optional<StoreDescription> description;
  try {
    description = find_description(body, options_.store);
  } catch (const Error& error) {
    throw_unreadable(Effect::reads, error);
  }
  if (!description) {
    throw Error(ErrorCode::not_found,
                is_named ? fmt::format("the service has no store {}", options_.store)
                         : "the service has no default store; name one");
  }
  return std::move(*description);
}

std::string HttpClient::events_url() const { return root_ + "/events"; }

std::string HttpClient::authorization() const {
  const detail::Lock lock(mutex_);
  return token_.empty() ? std::string() : "Bearer " + token_;
}

bool HttpClient::renew_token(const std::string& refused) {
  if (options_.token_file.empty()) return false;
  std::string token;
  try {
    token = read_token_file(options_.token_file);
  } catch (const Error&) {
    return false;  // it may be about to be replaced: what the service said counts
  }
  const detail::Lock lock(mutex_);
  token_ = std::move(token);
  return "Bearer " + token_ != refused;
}

void HttpClient::throw_unreadable(Effect effect, const Error& error) {
  throw Error(effect == Effect::reads ? ErrorCode::internal : ErrorCode::outcome_unknown,
              fmt::format("the answer of the service cannot be read: {}", error.what()));
}

std::string HttpClient::with_retries(const Request& request) {
  bool may_have_changed = false;
  for (int retry = 0;; ++retry) {
    try {
      return once(request);
    } catch (const Error& error) {
      const bool is_unknown = error.code() == ErrorCode::outcome_unknown;
      may_have_changed = may_have_changed || is_unknown;
      const bool can_repeat =
          changed_nothing(error.code()) || (is_unknown && request.effect == Effect::repeats);
      if (can_repeat && retry < options_.max_retries && pause_before(retry, request.deadline)) {
        continue;
      }
      if (!changed_nothing(error.code())) throw;
      // This try changed nothing, but an earlier one may have.
      if (may_have_changed) throw Error(ErrorCode::outcome_unknown, error.what());
      CallScope::current().throw_if_over();
      throw;
    }
  }
}

std::string HttpClient::once(Request request) {
  request.authorization = authorization();
  Reply reply = Lease(*this, request.deadline).send(request);
  if (reply.status == kUnauthorized && renew_token(request.authorization)) {
    request.authorization = authorization();
    reply = Lease(*this, request.deadline).send(request);
  }
  if (reply.status == kOk) return std::move(reply.body);
  Error error = wire::error_of(reply.status, reply.body);
  const bool is_unknown = error.code() == ErrorCode::outcome_unknown;
  if (is_unknown && request.effect == Effect::reads) {
    throw Error(ErrorCode::unavailable, error.what());
  }
  throw error;
}

bool HttpClient::pause_before(int retry, SteadyTime deadline) const {
  constexpr int kMaxDoublings = 10;
  const Duration longest =
      std::min(kMaxPause, options_.retry_pause * (1 << std::min(retry, kMaxDoublings)));
  // Callers that failed together do not come back together.
  static thread_local std::minstd_rand entropy{std::random_device{}()};
  std::uniform_int_distribution<Duration::rep> chance(longest.count() / 2, longest.count());
  const Duration pause{chance(entropy)};
  const CallOptions& limits = CallScope::current();
  if (time_left(limits.deadline_or(deadline)) <= pause) return false;
  detail::Pause(SystemClock::shared()).wait(limits.stop, pause);
  return !limits.is_over();
}

std::unique_ptr<CurlConnection> HttpClient::take(SteadyTime deadline) {
  {
    const CallOptions& limits = CallScope::current();
    const detail::NotifyOnStop wake(limits.stop, mutex_, returned_);
    const detail::Lock lock(mutex_);
    bool is_late = false;
    while (idle_.empty() && open_ >= options_.max_connections) {
      limits.throw_if_over();
      if (is_late) {
        throw Error(
            ErrorCode::timeout,
            "every connection to the service was in use for too long; raise max_connections or "
            "call_timeout");
      }
      is_late = !returned_.wait_until(mutex_, limits.deadline_or(deadline));
    }
    if (!idle_.empty()) {
      std::unique_ptr<CurlConnection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
    idle_.reserve(options_.max_connections);
    ++open_;
  }
  try {
    return std::make_unique<CurlConnection>(options_);
  } catch (...) {
    give_back(nullptr);
    throw;
  }
}

void HttpClient::give_back(std::unique_ptr<CurlConnection> connection) noexcept {
  {
    const detail::Lock lock(mutex_);
    if (connection) {
      idle_.push_back(std::move(connection));
    } else {
      --open_;
    }
  }
  returned_.notify_one();
}

}  // namespace oncebox::http
