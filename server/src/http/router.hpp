#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "http/exchange.hpp"

namespace oncebox::server {

/// Which limits of a token the handler of a route holds to. A token with others may not call it.
enum class HeldLimits {
  none,
  stores,
  all,  ///< stores, sources and topics
};

enum class BodyKind {
  whole,
  streamed,
  ndjson_streamed,  ///< streamed when its Content-Type is NDJSON, otherwise whole
};

/// Whether the body of a request with these fields is streamed.
[[nodiscard]] bool is_streamed(BodyKind body, const Fields& fields) noexcept;

/// Answers the exchange, at once or later from another thread. What it throws is answered as a
/// problem.
using Handler = std::function<void(const ExchangePtr&)>;

/// Looks at a request whose body has not been read. What it throws is the answer.
using HeadCheck = std::function<void(const Request&)>;

struct Route {
  Method method = Method::get;
  /// Segments, of which `{name}` takes one each, and `{name*}` at the end all that is left:
  /// "/v1/inbox/{key*}". Also the route's name in metrics and logs.
  std::string pattern;
  Scope scope = Scope::read;
  Handler handler;
  BodyKind body = BodyKind::whole;
  HeldLimits limits = HeldLimits::none;
  HeadCheck check_head = {};  ///< empty: nothing more is checked before the body is read
};

/// Whether the handler of the route holds to all limits of the caller's token.
[[nodiscard]] bool holds_limits(const Route& route, const Principal& principal) noexcept;

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
/// HEAD finds GET's. What stands for a name is never empty.
class Router {
 public:
  /// Throws `invalid_argument` when there is one for the same method and pattern.
  void add(Route route);
  [[nodiscard]] std::variant<Match, NoSuchPath, NoSuchMethod, BadPath> find(
      Method method, std::string_view path) const;

  [[nodiscard]] const std::vector<Route>& routes() const noexcept { return routes_; }

 private:
  /// What may follow a path's beginning. The patterns make a tree of these, so that a request costs
  /// a step for each segment, however many routes there are.
  struct Node {
    std::vector<std::pair<std::string, std::size_t>> literals;  ///< and the node behind each
    std::size_t segment = 0;                                    ///< behind `{name}`; 0: none
    std::vector<std::size_t> routes;                            ///< that end here
    std::vector<std::size_t> rest_routes;                       ///< that end here by `{name*}`
  };
  struct Search;

  [[nodiscard]] std::size_t child_of(std::size_t node, const std::string& segment);
  /// Looks below a node for what is left of the path.
  bool descend(Search& search, std::size_t node, std::string_view rest) const;
  bool take(Search& search, const std::vector<std::size_t>& candidates) const;

  std::vector<Route> routes_;
  std::vector<Node> nodes_ = std::vector<Node>(1);
};

}  // namespace oncebox::server
