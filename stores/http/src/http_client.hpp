#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "curl_connection.hpp"
#include "oncebox/detail/condition.hpp"
#include "oncebox/detail/mutex.hpp"
#include "oncebox/error.hpp"
#include "oncebox/http/http_store.hpp"

namespace oncebox::http {

/// One call of the service's API.
struct ApiCall {
  Method method = Method::post;
  std::string path;  ///< behind `/v1` and the store: "/messages/claim"
  std::string body = {};
  Effect effect = Effect::changes;
};

/// What the service says about the store.
struct StoreDescription {
  std::string name;
  Capabilities capabilities = {};
  Health health = {};
};

/// Speaks with the service: connections that are kept and shared, the token, and retries. Every
/// call is safe from any thread.
class HttpClient {
 public:
  explicit HttpClient(const Options& options);
  ~HttpClient();

  [[nodiscard]] const Options& options() const noexcept { return options_; }

  /// The body of the answer. Throws the error that the service answered, and as `HttpStore` says
  /// when there is no answer.
  [[nodiscard]] std::string call(const ApiCall& call);

  /// The same, read by `read(std::string_view)`.
  template <class Read>
  auto call(const ApiCall& api_call, Read read) {
    const std::string body = call(api_call);
    try {
      return read(body);
    } catch (const Error& error) {
      throw_unreadable(api_call.effect, error);
    }
  }

  /// The same for a batch: one answer for each of `items`.
  template <class Read>
  auto call_batch(const ApiCall& api_call, std::size_t items, Read read) {
    return call(api_call, [&](const std::string& body) {
      auto outcomes = read(body);
      if (outcomes.size() != items) {
        throw Error(ErrorCode::internal, "it does not have one outcome for each item");
      }
      return outcomes;
    });
  }

  /// The same for a batch of which the service may answer the first items only, and at least one.
  template <class Read>
  auto call_some(const ApiCall& api_call, std::size_t items, Read read) {
    return call(api_call, [&](const std::string& body) {
      auto found = read(body);
      const std::size_t count = found.records.size();
      if (found.truncated ? count == 0 || count >= items : count != items) {
        throw Error(ErrorCode::internal, "it does not have one record for each item");
      }
      return std::move(found.records);
    });
  }

  /// Throws `not_found` when the service has no such store.
  [[nodiscard]] StoreDescription describe(Duration within);

  /// The address of the events, and the token.
  [[nodiscard]] std::string events_url() const;
  [[nodiscard]] std::string authorization() const;
  /// Reads the token file again. False when there is none, or nothing new in it.
  bool renew_token(const std::string& refused);

 private:
  class Lease;

  [[noreturn]] static void throw_unreadable(Effect effect, const Error& error);
  [[nodiscard]] std::string with_retries(const Request& request);
  [[nodiscard]] std::string once(Request request);
  [[nodiscard]] bool pause_before(int retry, SteadyTime deadline) const;
  [[nodiscard]] std::unique_ptr<CurlConnection> take(SteadyTime deadline);
  void give_back(std::unique_ptr<CurlConnection> connection) noexcept;

  const Options options_;
  const std::string root_;   ///< up to and with `/v1`
  const std::string store_;  ///< the same with the store's name

  mutable detail::Mutex mutex_;
  detail::TimedCondition returned_{SystemClock::shared()};  ///< the deadlines of calls are real
  /// The last one used is used next.
  std::vector<std::unique_ptr<CurlConnection>> idle_ ONCEBOX_GUARDED_BY(mutex_);
  std::size_t open_ ONCEBOX_GUARDED_BY(mutex_) = 0;
  std::string token_ ONCEBOX_GUARDED_BY(mutex_);
};

}  // namespace oncebox::http
