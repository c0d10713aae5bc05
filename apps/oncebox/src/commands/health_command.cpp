#include <fmt/format.h>

#include <memory>
#include <span>

#include "commands/commands.hpp"
#ifdef ONCEBOX_WITH_HTTP
#include "oncebox/http/server_stores.hpp"
#include "oncebox/http_options.hpp"
#endif
#include "oncebox/operate/watchdog.hpp"
#include "oncebox/wire/health_json.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct HealthOptions {
  StoreOptions store = {};
  WatchdogOptions watchdog = {};
};

void print_store(Output& out, const WatchedHealth& one, std::string_view name) {
  std::string text = fmt::format("{} is {}", name, to_string(one.health.status));
  if (!one.health.detail.empty()) text += ": " + one.health.detail;
  out.line(printable(text));
}

void print_findings(Output& out, std::span<const Finding> findings, TimePoint now) {
  if (findings.empty()) return;
  Table table({{.title = "STORE"},
               {.title = "QUEUE"},
               {.title = "TOPIC"},
               {.title = "SINCE", .align = Align::right},
               {.title = "WHAT", .shrinks = Shrinks::yes}});
  for (const Finding& finding : findings) {
    table.add({{finding.store},
               {finding.queue.empty() ? "-" : finding.queue},
               {finding.topic ? finding.topic->str() : "-"},
               {age(finding.since, now)},
               {finding.detail, Style::red}});
  }
  table.print(out);
}

ExitCode exit_code_of(HealthStatus status) {
  return status == HealthStatus::healthy ? ExitCode::ok : ExitCode::failed;
}

#ifdef ONCEBOX_WITH_HTTP
/// What the server's own watchdog says, of all its stores.
ExitCode tell_of_server(Console& console, const StoreOptions& options) {
  const http::ServerHealth health =
      http::server_health(read_http_options(whole_url(options), own_credentials()));
  if (options.json) {
    console.out.line(wire::write_health(health.report, health.discovery));
    return exit_code_of(health.report.status);
  }
  console.out.line(fmt::format("the server is {}", to_string(health.report.status)));
  if (health.discovery.status != HealthStatus::healthy) {
    console.out.line(printable("discovery: " + health.discovery.detail));
  }
  for (const WatchedHealth& one : health.report.stores) {
    if (one.health.status == HealthStatus::healthy) continue;
    print_store(console.out, one, "store " + one.store);
  }
  print_findings(console.out, health.report.findings, SystemClock::current());
  return exit_code_of(health.report.status);
}
#endif

ExitCode tell_of_store(Console& console, const HealthOptions& options) {
  const OpenStore store(options.store);
  const SystemClock clock;
  const WatchdogReport report = look_once("store", store.store(), options.watchdog, clock);
  if (options.store.json) {
    console.out.line(wire::write_health(report));
  } else {
    print_store(console.out, report.stores.front(), "the store");
    print_findings(console.out, report.findings, clock.now());
  }
  return exit_code_of(report.status);
}

}  // namespace

Command health_command() {
  const auto options = std::make_shared<HealthOptions>();
  WatchdogOptions& watchdog = options->watchdog;
  return {.name = "health",
          .summary = "Tell what should not be so",
          .text =
              "Messages that nobody claims, leases that nobody took over, topics of which much "
              "dies, stores that are down. A server is asked what it has found, as it looks all "
              "the time; a store is looked at once. Exit code 1 when there is something.",
          .options = joined({{.names = "--ready-after",
                              .value = "DURATION",
                              .text = "a message could be claimed for so long, and nobody did",
                              .take = into(watchdog.ready_after),
                              .initial = format_duration(watchdog.ready_after)},
                             {.names = "--lapsed-after",
                              .value = "DURATION",
                              .text = "a lease ended so long ago, and nobody took the message over",
                              .take = into(watchdog.lapsed_after),
                              .initial = format_duration(watchdog.lapsed_after)}},
                            store_options(options->store)),
          .examples = {{"oncebox health", "Is anything wrong"}},
          .run = [options](Console& console) {
#ifdef ONCEBOX_WITH_HTTP
            if (is_server(options->store.url)) return tell_of_server(console, options->store);
#endif
            return tell_of_store(console, *options);
          }};
}

}  // namespace oncebox::app
