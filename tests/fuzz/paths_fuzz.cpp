// Paths and queries as they stand in a request: the router with all routes of the service, the keys
// in paths, and the parameters of lists.

#include <array>
#include <variant>

#include "fuzz_input.hpp"
#include "http/request_parser.hpp"
#include "http/router.hpp"
#include "oncebox/names.hpp"
#include "oncebox/wire/encoding.hpp"
#include "oncebox/wire/operator_json.hpp"

namespace {

using namespace oncebox;
using server::Match;
using server::Method;

constexpr std::size_t kMaxParameters = 64;

const server::Router& router() {
  static const server::Router made = [] {
    server::Router routes;
    for (const char* const base : {"/v1", "/v1/stores/{store}", "/v1/outbox"}) {
      for (const char* const path : {"/messages", "/messages/{source}/{messageId}",
                                     "/dead/{source}/{messageId}", "/stats", "/inbox/{key*}"}) {
        routes.add({.method = Method::get, .pattern = std::string(base) + path, .handler = {}});
      }
      for (const char* const path :
           {"/messages", "/messages/claim", "/inbox/try-begin", "/topics/pause"}) {
        routes.add({.method = Method::post, .pattern = std::string(base) + path, .handler = {}});
      }
    }
    return routes;
  }();
  return made;
}

/// The path that leads to the same route with the same arguments.
std::string path_of(const Match& match) {
  std::string path;
  std::size_t next = 0;
  const std::string& pattern = match.route->pattern;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '{') {
      path += pattern[i];
      continue;
    }
    path += wire::percent_encode(match.arguments.at(next++));
    i = pattern.find('}', i);
  }
  fuzz::require(next == match.arguments.size(), "every argument has a place");
  return path;
}

void route(Method method, const std::string& path) {
  const auto found = router().find(method, path);
  const auto* match = std::get_if<Match>(&found);
  if (match == nullptr) return;
  for (const std::string& argument : match->arguments) {
    fuzz::may_refuse([&] { (void)IdempotencyKey(argument); });
    // One that decodes to nothing, or to a name of ours, may lead elsewhere when it is escaped.
    if (argument.empty()) return;
  }
  const auto again = router().find(method, path_of(*match));
  const auto* same = std::get_if<Match>(&again);
  fuzz::require(same != nullptr, "an escaped path leads somewhere");
  if (same->route == match->route) {
    fuzz::require(same->arguments == match->arguments, "arguments come back");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::array kMethods = {Method::get, Method::post, Method::head, Method::delete_};
  fuzz::Input input(data, size);
  const Method method = kMethods[input.choice(kMethods.size())];
  const auto target = server::read_target(input.rest(), kMaxParameters);
  if (!target) return 0;
  route(method, target->path);
  fuzz::may_refuse([&] {
    const ListRequest list = wire::read_list_query(target->query);
    const std::string written = "/v1/messages?" + wire::write_list_query(list);
    const auto again = server::read_target(written, kMaxParameters);
    fuzz::require(again.has_value(), "a written query can be read");
    fuzz::require(
        wire::write_list_query(wire::read_list_query(again->query)) == wire::write_list_query(list),
        "a query comes back");
  });
  return 0;
}
