#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "choices.hpp"
#include "command_handler.hpp"
#include "commands/commands.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "oncebox/dispatch/dispatcher.hpp"
#include "oncebox/dispatch/outbox_dispatcher.hpp"
#include "oncebox/dispatch/set_dispatcher.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/prometheus/prometheus_metrics.hpp"
#include "oncebox/server/metrics_endpoint.hpp"
#include "oncebox/store_file.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "signals.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

enum class Strategy { round_robin, drain_first, weighted_fair };

constexpr Choice<Strategy> kStrategies[] = {{"round-robin", Strategy::round_robin},
                                            {"drain-first", Strategy::drain_first},
                                            {"weighted-fair", Strategy::weighted_fair}};

struct WorkOptions {
  StoreOptions store = {};
  std::string store_file = {};  ///< empty: one store
  std::optional<Strategy> strategy = {};
  std::vector<std::string> topics = {};
  std::vector<std::string> command = {};
  std::optional<WorkerName> name = {};
  std::size_t concurrency = defaults::kWorkers;
  Duration timeout{0};
  Duration grace = std::chrono::seconds{5};
  Duration finish_within = defaults::kFinishWithin;
  Duration lease = defaults::kLease;
  Duration poll_interval = defaults::kPollInterval;
  std::optional<int> max_attempts = {};
  std::optional<Duration> retry_delay = {};
  std::optional<Duration> max_retry_delay = {};
  bool drain = false;
  std::optional<std::uint16_t> metrics_port = {};  ///< nothing: no metrics
  std::string metrics_host = "127.0.0.1";
  LogLevel log_level = LogLevel::warning;
};

/// Whether the dispatcher has found nothing to do since it last looked.
class IdleWatch {
 public:
  [[nodiscard]] bool is_idle(const RunningStats& stats) {
    const bool has_work = stats.buffered + stats.running + stats.unsettled > 0;
    const std::uint64_t full_claims = stats.claims - stats.empty_claims;
    if (has_work || full_claims != full_claims_) {
      full_claims_ = full_claims;
      empty_claims_ = stats.empty_claims;
      return false;
    }
    return stats.empty_claims > empty_claims_;
  }

 private:
  std::uint64_t full_claims_ = 0;
  std::uint64_t empty_claims_ = 0;
};

/// Whether the store does nothing but fail; throws when that lasts.
class FailureWatch {
 public:
  [[nodiscard]] bool only_failures(const RunningStats& stats) {
    const auto now = std::chrono::steady_clock::now();
    if (stats.claims != claims_ || stats.failed_store_calls == 0) {
      claims_ = stats.claims;
      failed_ = stats.failed_store_calls;
      well_at_ = now;
      return false;
    }
    if (now - well_at_ > kPatience && stats.failed_store_calls > failed_) {
      throw Failure(ExitCode::unavailable, "the store cannot be used; see the log lines above");
    }
    return stats.failed_store_calls > failed_;
  }

 private:
  static constexpr std::chrono::seconds kPatience{30};

  std::uint64_t claims_ = 0;
  std::uint64_t failed_ = 0;
  std::chrono::steady_clock::time_point well_at_ = std::chrono::steady_clock::now();
};

/// Every command that runs needs some files of ours; without them messages would fail for nothing.
/// So does every store.
void require_files_for(std::size_t concurrency, std::size_t stores) {
  constexpr rlim_t kEachCommand = 6;
  constexpr rlim_t kEachStore = 6;
  constexpr rlim_t kOthers = 64;
  const rlim_t needed = kEachCommand * concurrency + kEachStore * stores + kOthers;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < needed) {
    files.rlim_cur = std::min(needed, files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < needed) {
    throw Failure(ExitCode::usage,
                  fmt::format("{} commands at once and {} stores need {} open files; raise the "
                              "limit (ulimit -n) or lower --concurrency",
                              concurrency, stores, needed));
  }
}

/// The dispatcher is that of one store, or of many.
template <class AnyDispatcher>
void wait_for_the_end(AnyDispatcher& dispatcher, Signals& signals, const WorkOptions& options) {
  if (!options.drain) {
    (void)signals.wait();
    return;
  }
  IdleWatch idle;
  FailureWatch failures;
  for (RunningStats stats = dispatcher.stats(); !idle.is_idle(stats); stats = dispatcher.stats()) {
    if (signals.wait_for(Duration{50})) return;
    // A store in trouble is left alone for as long as the dispatcher thinks right.
    if (!failures.only_failures(stats)) dispatcher.wake();
  }
}

/// Ends in order; a second signal interrupts what runs.
template <class AnyDispatcher>
StopResult stop_in_order(AnyDispatcher& dispatcher, Signals& signals, const WorkOptions& options) {
  const std::jthread second_signal([&](const std::stop_token& stopped) {
    while (!stopped.stop_requested()) {
      if (!signals.wait_for(Duration{50})) continue;
      dispatcher.stop_now();
      return;
    }
  });
  return dispatcher.stop({.finish_within = options.finish_within,
                          .interrupt_within = options.grace + std::chrono::seconds{2}});
}

void print_work_done(Console& console, const WorkOptions& options, const RunningStats& stats) {
  if (options.store.json) {
    console.out.line(json_object({{"done", stats.handled},
                                  {"retried", stats.retried},
                                  {"dead", stats.dead},
                                  {"released", stats.released}}));
  } else {
    console.err.line(fmt::format("done {}, to be retried {}, dead {}, released {}",
                                 grouped(stats.handled), grouped(stats.retried),
                                 grouped(stats.dead), grouped(stats.released)));
  }
}

/// Rules of the command line's own, for what it names; for the rest those of the store hold.
RetryPolicies retries_of(const WorkOptions& options) {
  RetryPolicies own;
  // A limit of attempts replaces a limit of time.
  if (options.max_attempts) own.set_limit("*", {.max_attempts = *options.max_attempts});
  if (options.retry_delay) {
    const bool is_outbox = options.store.queue == QueueKind::outbox;
    RetryDelays delays = (is_outbox ? outbox_retry_policy() : RetryPolicy{}).delays();
    delays.backoff = ExponentialBackoff{*options.retry_delay};
    if (options.max_retry_delay) delays.max_delay = *options.max_retry_delay;
    own.set_delays("*", std::move(delays));
  }
  return own;
}

DispatcherOptions dispatcher_options(const WorkOptions& options) {
  return {.name = std::string(to_string(options.store.queue)),
          .worker_name = options.name,
          .workers = options.concurrency,
          .batch_size = std::min(defaults::kBatchSize, 2 * options.concurrency),
          // A command takes long: what is not begun is better left to others.
          .max_buffered = options.concurrency,
          .lease = options.lease,
          .poll_interval = options.poll_interval,
          .retries = retries_of(options),
          .no_handler = NoHandlerPolicy::ignore};
}

Handlers command_handlers(const WorkOptions& options) {
  const auto handler = std::make_shared<CommandHandler>(
      CommandHandlerOptions{.command = options.command,
                            .timeout = options.timeout,
                            .grace = options.grace,
                            .tells_store = !options.store_file.empty()});
  Handlers handlers;
  if (options.topics.empty()) handlers.on(TopicPattern("*"), handler);
  for (const std::string& topic : options.topics) handlers.on(TopicPattern(topic), handler);
  return handlers;
}

/// Answers Prometheus while the dispatcher works; null when nobody has asked for it.
template <class AnyDispatcher>
std::unique_ptr<server::MetricsEndpoint> serve_metrics(PrometheusMetrics& metrics,
                                                       AnyDispatcher& dispatcher,
                                                       const WorkOptions& options, Logger& logger,
                                                       const Clock& clock) {
  if (!options.metrics_port) return nullptr;
  // Who names an address has decided who may read the metrics.
  const bool is_named = options.metrics_host != WorkOptions{}.metrics_host;
  const server::ListenOptions listen{.host = options.metrics_host,
                                     .port = *options.metrics_port,
                                     .allow_anonymous_remote = is_named};
  const auto expose = [&metrics, &dispatcher] {
    metrics.on_dispatcher("work", dispatcher.stats());
    return metrics.expose();
  };
  return std::make_unique<server::MetricsEndpoint>(listen, expose, logger, clock);
}

/// Until a signal comes, or there is nothing left to do.
template <class AnyDispatcher>
ExitCode run_to_the_end(AnyDispatcher& dispatcher, Signals& signals, Console& console,
                        const WorkOptions& options) {
  dispatcher.start();
  wait_for_the_end(dispatcher, signals, options);
  const StopResult left = stop_in_order(dispatcher, signals, options);
  print_work_done(console, options, dispatcher.stats());
  return left.complete() ? ExitCode::ok : ExitCode::failed;
}

ExitCode work_on_one(Console& console, Signals& signals, const WorkOptions& options) {
  require_files_for(options.concurrency, 1);
  const OpenStore store(options.store);
  // A store that cannot be used is told now; later the dispatcher would try for ever.
  (void)store.queue().next_due({});
  const SystemClock clock;
  TextLogger logger(std::cerr, clock, options.log_level);
  PrometheusMetrics metrics;
  const std::string name(to_string(options.store.queue));  // as in the lines of the log
  Observer& observer = metrics.observer({name, options.store.queue});
  Dispatcher dispatcher(store.queue(), command_handlers(options), dispatcher_options(options),
                        logger, observer, clock);
  const auto endpoint = serve_metrics(metrics, dispatcher, options, logger, clock);
  return run_to_the_end(dispatcher, signals, console, options);
}

std::unique_ptr<StoreSelection> selection_of(const std::optional<Strategy>& strategy) {
  switch (strategy.value_or(Strategy::weighted_fair)) {
    case Strategy::round_robin:
      return round_robin();
    case Strategy::drain_first:
      return drain_first();
    case Strategy::weighted_fair:
      break;
  }
  return weighted_fair();
}

/// On every store of the file, for as long as it stands there.
ExitCode work_on_many(Console& console, Signals& signals, const WorkOptions& options) {
  const StoreFile file(options.store_file);
  // What is wrong with it is told now.
  require_files_for(options.concurrency, file.read().size());
  const SystemClock clock;
  TextLogger logger(std::cerr, clock, options.log_level);
  StoreOpener opener;
  StoreSet stores(
      [&] { return file.read(); },
      [&](const StoreLocation& location) { return opener.open(location.url, own_credentials()); },
      {}, logger);
  const StoreFileWatch watch(file, stores);
  PrometheusMetrics metrics;
  SetDispatcher dispatcher(stores, command_handlers(options), selection_of(options.strategy),
                           {.dispatcher = dispatcher_options(options)}, logger, metrics.observers(),
                           clock);
  const auto endpoint = serve_metrics(metrics, dispatcher, options, logger, clock);
  return run_to_the_end(dispatcher, signals, console, options);
}

/// With many stores some options of one make no sense.
void require_for_many(const WorkOptions& options) {
  if (options.store.queue == QueueKind::outbox) {
    throw Failure(ExitCode::usage, "--stores works on inboxes; leave out --queue outbox");
  }
  if (!options.store.store.empty() || !options.store.token_file.empty()) {
    throw Failure(ExitCode::usage, "--stores names the stores; leave out --store and --token-file");
  }
  if (options.drain) {
    throw Failure(ExitCode::usage, "--drain is for one store; run it with the --url of each");
  }
}

ExitCode work(Console& console, const WorkOptions& options) {
  if (!is_executable(options.command.front())) {
    throw Failure(ExitCode::usage, fmt::format("{} is no program that can be executed",
                                               printable(options.command.front())));
  }
  if (options.max_retry_delay && !options.retry_delay) {
    throw Failure(ExitCode::usage, "--max-retry-delay is for --retry-delay; name both");
  }
  Signals signals({SIGINT, SIGTERM, SIGHUP});
  if (options.store_file.empty()) {
    if (options.strategy) throw Failure(ExitCode::usage, "--strategy is for --stores");
    return work_on_one(console, signals, options);
  }
  require_for_many(options);
  return work_on_many(console, signals, options);
}

std::vector<Option> work_options(WorkOptions& options) {
  return {
      {.names = "-t,--topic",
       .value = "TOPIC",
       .text = "only messages of this topic; order.* means all that begin with order.",
       .take = into(options.topics),
       .occurs = Occurs::repeatedly},
      {.names = "--stores",
       .value = "FILE",
       .text = "work on every store that this file lists ([[stores]] with name and url), which is "
               "read again when it changes; instead of --url",
       .take = into(options.store_file),
       .completes = Completes::file},
      {.names = "--strategy",
       .value = "STRATEGY",
       .text = "which of many stores comes next",
       .take =
           [&options](const std::string& text) {
             into(options.strategy.emplace(), kStrategies)(text);
           },
       .initial = "weighted-fair",
       .choices = words_of(kStrategies)},
      {.names = "--name",
       .value = "NAME",
       .text = "what this worker is called where its leases and attempts are shown",
       .take = [&options](const std::string& text) { options.name.emplace(text); },
       .initial = "HOST:PID"},
      {.names = "-c,--concurrency",
       .value = "N",
       .text = "commands that run at the same time",
       .take =
           [&options](const std::string& text) {
             options.concurrency = parse_count(text);
             require_in_range("the concurrency", options.concurrency, 1, 1'000);
           },
       .initial = fmt::format("{}", options.concurrency)},
      {.names = "--timeout",
       .value = "DURATION",
       .text = "how long a command may take; it then gets SIGTERM, and the message is retried",
       .take = into(options.timeout),
       .initial = "none"},
      {.names = "--grace",
       .value = "DURATION",
       .text = "between SIGTERM and SIGKILL",
       .take = into(options.grace),
       .initial = format_duration(options.grace)},
      {.names = "--finish-within",
       .value = "DURATION",
       .text = "how long commands may go on when this program is to end",
       .take = into(options.finish_within),
       .initial = format_duration(options.finish_within)},
      {.names = "--max-attempts",
       .value = "N",
       .text = "failures after which a message is dead",
       .take = into(options.max_attempts),
       .initial = "as the store's rule for the topic says"},
      {.names = "--retry-delay",
       .value = "DURATION",
       .text = "doubled with every failure to get the time until the next try",
       .take = into(options.retry_delay),
       .initial = "as the store's rule for the topic says"},
      {.names = "--max-retry-delay",
       .value = "DURATION",
       .text = "the longest time until the next try that --retry-delay comes to",
       .take = into(options.max_retry_delay),
       .initial = "1m; with --queue outbox 5m"},
      {.names = "--lease",
       .value = "DURATION",
       .text = "how long after the death of this program others wait for its messages",
       .take = into(options.lease),
       .initial = format_duration(options.lease)},
      {.names = "--poll-interval",
       .value = "DURATION",
       .text = "how soon to look again, on stores that do not tell of new messages",
       .take = into(options.poll_interval),
       .initial = format_duration(options.poll_interval)},
      {.names = "--drain",
       .text = "end when there is nothing left to do now",
       .take = into(options.drain)},
      {.names = "--metrics-port",
       .value = "PORT",
       .text = "answer Prometheus at http://127.0.0.1:PORT/metrics; 0 takes any free port, which "
               "--log-level info tells",
       .take =
           [&options](const std::string& text) {
             const std::size_t port = parse_count(text);
             require_in_range("the port", port, 0, 65'535);
             options.metrics_port = static_cast<std::uint16_t>(port);
           },
       .initial = "none"},
      {.names = "--metrics-host",
       .value = "ADDRESS",
       .text = "another address to answer Prometheus at; whoever can reach it can read the metrics",
       .take = into(options.metrics_host),
       .initial = options.metrics_host},
      {.names = "--log-level",
       .value = "LEVEL",
       .text = "what to write to standard error",
       .take = into(options.log_level, kLogLevels),
       .initial = "warning",
       .choices = words_of(kLogLevels)},
  };
}

}  // namespace

Command work_command() {
  const auto options = std::make_shared<WorkOptions>();
  return {
      .name = "work",
      .summary = "Handle messages by running a command for each of them",
      .text =
          "The command gets the payload on its standard input, and in its environment "
          "ONCEBOX_SOURCE, ONCEBOX_MESSAGE_ID, ONCEBOX_TOPIC, ONCEBOX_ATTEMPT (1 at first), "
          "ONCEBOX_DELIVERY, ONCEBOX_PARTITION_KEY, and each header as ONCEBOX_HEADER_NAME in "
          "capitals, with _ for what is no letter or digit. With --stores it also gets "
          "ONCEBOX_STORE, the name of the store.\n\n"
          "Its exit code decides: 0 means that the message is done, 65 that it failed for good and "
          "is dead, 75 and every other code, a signal or a timeout that it failed and is tried "
          "again. The last line that it wrote to standard error is kept with the message as the "
          "reason. A message can come twice when a machine fails: the command must bear that.\n\n"
          "SIGTERM or SIGINT ends the work in order: no new messages, commands may finish within "
          "--finish-within, then their process groups get SIGTERM, and SIGKILL after --grace; "
          "their messages are released without counting a try. A second signal does the same at "
          "once.",
      .options = joined(work_options(*options), queue_options(options->store)),
      .rest = {.value = "COMMAND [ARGUMENT...]",
               .text = "the program to run, and its arguments",
               .take = into(options->command)},
      .examples = {{"oncebox work --topic 'mail.*' --concurrency 8 -- ./send-mail --verbose",
                    "Eight mails at a time"},
                   {"oncebox work --drain -- sh -c 'cat > \"inbox/$ONCEBOX_MESSAGE_ID\"'",
                    "Store what is there in files, then end"},
                   {"oncebox work --metrics-port 9090 -- ./handle",
                    "With metrics for Prometheus, at http://127.0.0.1:9090/metrics"},
                   {"oncebox work --stores tenants.toml -- ./handle",
                    "For every tenant's database, none of which starves another"}},
      .run = [options](Console& console) { return work(console, *options); }};
}

}  // namespace oncebox::app
