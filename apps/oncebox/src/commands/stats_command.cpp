#include <fmt/format.h>

#include <csignal>
#include <memory>

#include "commands/commands.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "output.hpp"
#include "record_view.hpp"
#include "signals.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct StatsOptions {
  StoreOptions store = {};
  bool watch = false;
  Duration interval = std::chrono::seconds{2};
};

void show_stats(Console& console, const OpenStore& store, const StatsOptions& options) {
  const QueueStats stats = store.queue_operator().stats();
  if (options.store.json) {
    console.out.line(wire::write_stats(stats));
  } else {
    print_stats(console.out, stats, SystemClock::current());
  }
  console.out.flush();
}

void watch_stats(Console& console, const OpenStore& store, const StatsOptions& options,
                 Signals& signals) {
  const bool redraws = console.out.is_terminal() && !options.store.json;
  do {
    // From the top of an empty screen; elsewhere one table follows the other.
    if (redraws) console.out.write("\x1b[H\x1b[2J");
    if (!options.store.json) {
      console.out.line(console.out.styled(short_time(SystemClock::current()) + " UTC", Style::dim));
    }
    show_stats(console, store, options);
  } while (!signals.wait_for(options.interval));
}

}  // namespace

Command stats_command() {
  const auto options = std::make_shared<StatsOptions>();
  return {.name = "stats",
          .summary = "Count messages by topic and by what they are doing",
          .text =
              "READY can be handed out now; WAITING cannot yet, and the column FOR says what they "
              "wait for: content (marked as processing, but never enqueued), their partition, "
              "their due time, a backoff, or the end of a pause; LEASED are being handled.",
          .options = joined({{.names = "-w,--watch",
                              .text = "show it again and again, until interrupted",
                              .take = into(options->watch)},
                             {.names = "--interval",
                              .value = "DURATION",
                              .text = "how often to look, with --watch",
                              .take =
                                  [options](const std::string& text) {
                                    options->interval = parse_duration(text);
                                    require_in_range("the interval", options->interval,
                                                     Duration{10}, std::chrono::hours{24});
                                  },
                              .initial = format_duration(options->interval)}},
                            queue_options(options->store)),
          .examples = {{"oncebox stats", "How the queue stands"},
                       {"oncebox stats --watch --interval 1s", "Look every second"}},
          .run = [options](Console& console) {
            if (!options->watch) {
              show_stats(console, OpenStore(options->store), *options);
              return ExitCode::ok;
            }
            Signals signals({SIGINT, SIGTERM});
            const OpenStore store(options->store);
            watch_stats(console, store, *options, signals);
            return ExitCode::ok;
          }};
}

}  // namespace oncebox::app
