#include <fmt/format.h>

#include <memory>

#include "commands/commands.hpp"
#include "json_output.hpp"
#include "oncebox/http/server_stores.hpp"
#include "oncebox/http_options.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

std::string_view health_word(const Health& health) { return to_string(health.status); }

Style style_of(const Health& health) {
  if (health.status == HealthStatus::healthy) return Style::green;
  return health.status == HealthStatus::degraded ? Style::yellow : Style::red;
}

std::string discovery_json(const Health& discovery) {
  std::vector<JsonField> fields{{"health", health_word(discovery)}};
  if (!discovery.detail.empty()) fields.emplace_back("detail", discovery.detail);
  return json_object(fields);
}

std::string stores_json(const http::ServerStoreList& list) {
  std::string stores;
  for (const http::ServerStore& store : list.stores) {
    std::vector<JsonField> fields{{"name", store.name},
                                  {"default", store.is_default},
                                  {"state", store.is_open ? "open" : "down"},
                                  {"health", health_word(store.health)}};
    if (!store.health.detail.empty()) fields.emplace_back("detail", store.health.detail);
    if (!stores.empty()) stores += ",";
    stores += json_object(fields);
  }
  return json_object({{"stores", RawJson{fmt::format("[{}]", stores)}},
                      {"discovery", RawJson{discovery_json(list.discovery)}}});
}

void print_stores(Output& out, const http::ServerStoreList& list) {
  Table table({{"STORE"}, {"STATE"}, {"HEALTH"}, {"REASON", Align::left, Shrinks::yes}});
  for (const http::ServerStore& store : list.stores) {
    table.add({{store.is_default ? store.name + " (default)" : store.name},
               {store.is_open ? "open" : "down", store.is_open ? Style::plain : Style::red},
               {std::string(health_word(store.health)), style_of(store.health)},
               {store.health.detail}});
  }
  table.print(out);
  if (list.discovery.status != HealthStatus::healthy) {
    out.line(out.styled(
        fmt::format("discovery is {}: {}", health_word(list.discovery), list.discovery.detail),
        style_of(list.discovery)));
  }
}

http::Options service_of(const StoreOptions& options) {
  return read_http_options(whole_url(options), own_credentials());
}

ExitCode list_stores(Console& console, const StoreOptions& options) {
  const http::ServerStoreList list = http::list_server_stores(service_of(options));
  if (options.json) {
    console.out.line(stores_json(list));
  } else {
    print_stores(console.out, list);
  }
  return ExitCode::ok;
}

ExitCode refresh_stores(Console& console, const StoreOptions& options) {
  const RefreshResult result = http::refresh_server_stores(service_of(options));
  if (options.json) {
    console.out.line(json_object({{"added", RawJson{json_array(result.added)}},
                                  {"removed", RawJson{json_array(result.removed)}},
                                  {"reopened", RawJson{json_array(result.reopened)}},
                                  {"down", RawJson{json_array(result.down)}}}));
    return ExitCode::ok;
  }
  const auto print = [&](std::string_view what, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      console.out.line(fmt::format("{}: {}", what, printable(name)));
    }
  };
  print("added", result.added);
  print("removed", result.removed);
  print("reopened", result.reopened);
  print("down", result.down);
  if (result == RefreshResult{}) console.out.line("nothing has changed");
  return ExitCode::ok;
}

Command stores_refresh_command() {
  const auto options = std::make_shared<StoreOptions>();
  return {.name = "refresh",
          .summary = "Have a server look for stores that have come or gone",
          .text =
              "What is new is opened, what is gone is let go, and stores that are down are tried "
              "again. Without it a server looks by itself: at once when its file changes, else "
              "every discovery.interval.",
          .options = service_options(*options),
          .examples = {{"oncebox stores refresh", "After a tenant was added"}},
          .run = [options](Console& console) { return refresh_stores(console, *options); }};
}

}  // namespace

Command stores_command() {
  const auto options = std::make_shared<StoreOptions>();
  return {.name = "stores",
          .summary = "List the stores of a server and how they are",
          .options = service_options(*options),
          .examples = {{"oncebox stores", "Which stores there are"},
                       {"oncebox stores --json", "The same for programs"}},
          .commands = {stores_refresh_command()},
          .run = [options](Console& console) { return list_stores(console, *options); }};
}

}  // namespace oncebox::app
