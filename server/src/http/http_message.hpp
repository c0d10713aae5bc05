#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/scope.hpp"
#include "http/token_limits.hpp"
#include "oncebox/internal/http_text.hpp"
#include "oncebox/wire/operator_json.hpp"

namespace oncebox::server {

class MemoryHold;

enum class Method { get, head, post, put, patch, delete_, options, other };

[[nodiscard]] std::string_view to_string(Method method) noexcept;

using detail::equal_ignoring_case;

/// Header fields of a request or an answer. Names are compared without case.
class Fields {
 public:
  using Entry = std::pair<std::string, std::string>;

  void add(std::string name, std::string value) {
    entries_.emplace_back(std::move(name), std::move(value));
  }
  /// All of this name.
  void remove(std::string_view name);
  /// The first of this name.
  [[nodiscard]] std::optional<std::string_view> get(std::string_view name) const noexcept;

  void reserve(std::size_t count) { entries_.reserve(count); }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }
  [[nodiscard]] auto begin() const noexcept { return entries_.begin(); }
  [[nodiscard]] auto end() const noexcept { return entries_.end(); }

 private:
  std::vector<Entry> entries_;
};

/// Who asks, once the token or the certificate was checked.
struct Principal {
  /// Of those who need to prove nothing; no token has this name.
  static constexpr std::string_view kAnonymous = "anonymous";

  std::string name{kAnonymous};
  std::shared_ptr<const TokenLimits> limits = {};  ///< null: none
  ScopeBits scopes = kEveryScope;                  ///< that the token has

  [[nodiscard]] bool is_anonymous() const noexcept { return name == kAnonymous; }
  [[nodiscard]] bool has(Scope scope) const noexcept { return (scopes & bit_of(scope)) != 0; }
};

struct Request {
  Method method = Method::get;
  std::string path;  ///< as it came, escapes and all, without the query
  std::vector<wire::QueryParameter> query = {};
  Fields fields = {};
  std::string body = {};  ///< empty when the route streams it
  std::string peer = {};  ///< the client's address
  std::string id = {};    ///< X-Request-Id, or a new one; in every log line and problem
  Principal principal = {};
  /// What stands for the `{…}` of the route, decoded, in their order.
  std::vector<std::string> arguments = {};
  std::string store = {};  ///< that it is about, for the log; empty: none

  [[nodiscard]] std::optional<std::string_view> query_value(std::string_view name) const noexcept;
};

/// What all addresses of one client have in common: of IPv6 the network of 64 bits.
[[nodiscard]] std::string network_of(const std::string& peer);

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  Fields fields = {};
  /// Called, if it is there, when the answer could not even begin to be sent: what it would have
  /// given to the client can be given to others.
  std::function<void()> undelivered = {};
  std::string cause = {};  ///< of a failure, for the log alone; never sent
  /// Counts the body already. Null: it is counted when it is sent.
  std::shared_ptr<MemoryHold> hold = {};
};

}  // namespace oncebox::server
