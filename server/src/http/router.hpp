#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/exchange.hpp"

namespace oncebox::server {

/// What a token must allow. `open` needs none.
enum class Scope { open, read, produce, consume, operate };

[[nodiscard]] std::string_view to_string(Scope scope) noexcept;

enum class BodyKind { whole, streamed };

/// Answers the exchange, at once or later from another thread. What it throws is answered as a
/// problem.
using Handler = std::function<void(const ExchangePtr&)>;

struct Route {
  Method method = Method::get;
  /// Segments, of which `{name}` takes one each, and `{name*}` at the end all that is left:
  /// "/v1/inbox/{key*}". Also the route's name in metrics and logs.
  std::string pattern;
  Scope scope = Scope::read;
  Handler handler;
  BodyKind body = BodyKind::whole;
};

struct Match {
  const Route* route = nullptr;
  std::vector<std::string> arguments;  ///< decoded
};
struct NoSuchPath {};
struct NoSuchMethod {
  std::string allowed;  ///< for the field Allow
};
/// An escape in the path is broken.
struct BadPath {};

/// Finds the route of a request. A literal segment wins over `{name}`, and that over `{name*}`.
/// HEAD finds GET's.
class Router {
 public:
  /// Throws `invalid_argument` when there is one for the same method and pattern.
  void add(Route route);
  [[nodiscard]] std::variant<Match, NoSuchPath, NoSuchMethod, BadPath> find(
      Method method, std::string_view path) const;

  [[nodiscard]] const std::vector<Route>& routes() const noexcept { return routes_; }

 private:
  std::vector<Route> routes_;
};

}  // namespace oncebox::server
