#include "http/router.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "http/media_type.hpp"
#include "oncebox/error.hpp"
#include "oncebox/wire/encoding.hpp"

namespace oncebox::server {

namespace {

bool is_name(std::string_view segment) {
  return segment.size() > 2 && segment.front() == '{' && segment.back() == '}';
}

bool is_rest(std::string_view segment) {
  return is_name(segment) && segment[segment.size() - 2] == '*';
}

/// Cuts the first segment off a path that begins with a slash.
std::string_view cut_segment(std::string_view& rest) {
  rest.remove_prefix(1);
  const std::size_t end = std::min(rest.find('/'), rest.size());
  const std::string_view segment = rest.substr(0, end);
  rest.remove_prefix(end);
  return segment;
}

[[noreturn]] void refuse_pattern(const Route& route, std::string_view why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the route {} {} {}", to_string(route.method), route.pattern, why));
}

}  // namespace

std::string_view to_string(Scope scope) noexcept {
  switch (scope) {
    case Scope::open:
      return "open";
    case Scope::read:
      return "read";
    case Scope::produce:
      return "produce";
    case Scope::consume:
      return "consume";
    case Scope::operate:
      return "operate";
  }
  return "unknown";
}

bool is_streamed(BodyKind body, const Fields& fields) noexcept {
  if (body == BodyKind::ndjson_streamed) return media_type(fields) == MediaType::ndjson;
  return body == BodyKind::streamed;
}

struct Router::Search {
  Method method;
  std::vector<std::string_view> raw = {};  ///< what stands for the names, still escaped
  const Route* found = nullptr;
  std::vector<Method> others = {};  ///< methods that the path has routes for
};

bool holds_limits(const Route& route, const Principal& principal) noexcept {
  if (!principal.limits || route.limits == HeldLimits::all) return true;
  return route.limits == HeldLimits::stores && principal.limits->allow_all_messages();
}

void Router::add(Route route) {
  if (route.pattern.empty() || route.pattern.front() != '/') {
    refuse_pattern(route, "does not begin with a slash");
  }
  std::size_t node = 0;
  std::string_view rest = route.pattern;
  bool ends_in_rest = false;
  while (!rest.empty()) {
    const std::string segment(cut_segment(rest));
    if (is_rest(segment)) {
      if (!rest.empty()) refuse_pattern(route, "goes on behind {name*}");
      ends_in_rest = true;
    } else {
      node = child_of(node, segment);
    }
  }
  auto& ends = ends_in_rest ? nodes_[node].rest_routes : nodes_[node].routes;
  for (const std::size_t other : ends) {
    if (routes_[other].method == route.method) refuse_pattern(route, "is there already");
  }
  ends.push_back(routes_.size());
  routes_.push_back(std::move(route));
}

std::size_t Router::child_of(std::size_t node, const std::string& segment) {
  if (is_name(segment)) {
    if (nodes_[node].segment == 0) {
      nodes_[node].segment = nodes_.size();
      nodes_.emplace_back();
    }
    return nodes_[node].segment;
  }
  for (const auto& [literal, child] : nodes_[node].literals) {
    if (literal == segment) return child;
  }
  const std::size_t child = nodes_.size();
  nodes_[node].literals.emplace_back(segment, child);
  nodes_.emplace_back();
  return child;
}

bool Router::take(Search& search, const std::vector<std::size_t>& candidates) const {
  const Method wanted = search.method == Method::head ? Method::get : search.method;
  for (const std::size_t index : candidates) {
    if (routes_[index].method == wanted) {
      search.found = &routes_[index];
      return true;
    }
    search.others.push_back(routes_[index].method);
  }
  return false;
}

bool Router::descend(Search& search, std::size_t node, std::string_view rest) const {
  const Node& here = nodes_[node];
  if (rest.empty()) return take(search, here.routes);

  std::string_view after = rest;
  const std::string_view segment = cut_segment(after);
  for (const auto& [literal, child] : here.literals) {
    if (literal == segment && descend(search, child, after)) return true;
  }
  if (here.segment != 0 && !segment.empty()) {
    search.raw.push_back(segment);
    if (descend(search, here.segment, after)) return true;
    search.raw.pop_back();
  }
  if (rest.size() > 1 && !here.rest_routes.empty()) {
    search.raw.push_back(rest.substr(1));
    if (take(search, here.rest_routes)) return true;
    search.raw.pop_back();
  }
  return false;
}

std::variant<Match, NoSuchPath, NoSuchMethod, BadPath> Router::find(Method method,
                                                                    std::string_view path) const {
  if (path.empty() || path.front() != '/') return NoSuchPath{};
  Search search{.method = method};
  if (!descend(search, 0, path)) {
    if (search.others.empty()) return NoSuchPath{};
    std::sort(search.others.begin(), search.others.end());
    search.others.erase(std::unique(search.others.begin(), search.others.end()),
                        search.others.end());
    NoSuchMethod other;
    for (const Method allowed : search.others) {
      if (!other.allowed.empty()) other.allowed += ", ";
      other.allowed += to_string(allowed);
      if (allowed == Method::get) other.allowed += ", HEAD";
    }
    return other;
  }
  Match match{.route = search.found, .arguments = {}};
  match.arguments.reserve(search.raw.size());
  for (const std::string_view raw : search.raw) {
    auto decoded = wire::percent_decode(raw);
    if (!decoded) return BadPath{};
    match.arguments.push_back(std::move(*decoded));
  }
  return match;
}

}  // namespace oncebox::server
