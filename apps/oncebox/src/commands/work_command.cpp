#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
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
#include "process_log.hpp"
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

/// Calls a function with the first signal that comes while this object is there.
class OnSignal {
 public:
  OnSignal(Signals& signals, std::function<void()> call)
      : waiter_([&signals, call = std::move(call)](const std::stop_token& stopped) {
          while (!stopped.stop_requested()) {
            if (signals.wait_for(Duration{50})) return call();
          }
        }) {}

 private:
  const std::jthread waiter_;
};

/// Every command that runs needs some files of ours; without them messages would fail for nothing.
/// So does every store.
void require_files_for(std::size_t concurrency, std::size_t stores) {
  constexpr rlim_t kEachCommand = 9;
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
  // So long a store may do nothing but fail.
  constexpr std::chrono::seconds kPatience{30};
  std::stop_source stop;
  const OnSignal on_signal(signals, [&stop] { stop.request_stop(); });
  RunningStats before = dispatcher.stats();
  while (!dispatcher.wait_until_idle({.timeout = kPatience, .stop = stop.get_token()})) {
    if (stop.stop_requested()) return;
    const RunningStats now = dispatcher.stats();
    if (now.claims == before.claims && now.failed_store_calls > before.failed_store_calls) {
      throw Failure(ExitCode::unavailable, "the store cannot be used; see the log lines above");
    }
    before = now;
  }
}

/// Ends in order; a second signal interrupts what runs.
template <class AnyDispatcher>
StopResult stop_in_order(AnyDispatcher& dispatcher, Signals& signals, const WorkOptions& options) {
  const OnSignal second_signal(signals, [&dispatcher] { dispatcher.stop_now(); });
  return dispatcher.stop({.finish_within = options.finish_within,
                          .interrupt_within = options.grace + std::chrono::seconds{2}});
}

void print_work_done(Console& console, ProcessLog& log, const WorkOptions& options,
                     const RunningStats& stats) {
  if (options.store.json) {
    console.out.line(json_object({{"done", stats.handled},
                                  {"retried", stats.retried},
                                  {"dead", stats.dead},
                                  {"released", stats.released}}));
  } else {
    // As the log: a reader that stalls must not keep the worker from ending.
    log.lines().log(
        LogLevel::warning,
        fmt::format("done {}, to be retried {}, dead {}, released {}", grouped(stats.handled),
                    grouped(stats.retried), grouped(stats.dead), grouped(stats.released)),
        {});
  }
}

/// Rules of the command line's own, for what it names; for the rest those of the store hold.
RetryPolicies retries_of(const WorkOptions& options) {
  RetryPolicies own;
  // A limit of attempts replaces a limit of time.
  if (options.max_attempts) own.set_limit("*", {.max_attempts = *options.max_attempts});
  if (options.retry_delay) {
    const bool is_outbox = options.store.queue != QueueKind::inbox;
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

/// A worker on PostgreSQL may have its password from PGPASSWORD.
DatabasePassword database_password_of(const WorkOptions& options) {
  const bool may_be_ours = !options.store_file.empty() || options.store.url.starts_with("postgres");
  return may_be_ours ? DatabasePassword::of_the_worker : DatabasePassword::of_the_command;
}

Handlers command_handlers(const WorkOptions& options, CommandGuard& guard, ProcessLog& log) {
  const auto handler = std::make_shared<CommandHandler>(
      CommandHandlerOptions{.command = options.command,
                            .timeout = options.timeout,
                            .grace = options.grace,
                            .tells_store = !options.store_file.empty(),
                            .database_password = database_password_of(options)},
      guard, log.lines());
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
  return std::make_unique<server::MetricsEndpoint>(listen, expose,
                                                   Surroundings{.logger = logger, .clock = clock});
}

/// Until a signal comes, or there is nothing left to do.
template <class AnyDispatcher>
ExitCode run_to_the_end(AnyDispatcher& dispatcher, Signals& signals, Console& console,
                        ProcessLog& log, const WorkOptions& options) {
  dispatcher.start();
  wait_for_the_end(dispatcher, signals, options);
  const StopResult left = stop_in_order(dispatcher, signals, options);
  print_work_done(console, log, options, dispatcher.stats());
  return left.complete() ? ExitCode::ok : ExitCode::failed;
}

ExitCode work_on_one(Console& console, Signals& signals, CommandGuard& guard,
                     const WorkOptions& options) {
  require_files_for(options.concurrency, 1);
  const OpenStore store(options.store);
  // A store that cannot be used is told now; later the dispatcher would try for ever.
  (void)store.queue().next_due({});
  const SystemClock clock;
  ProcessLog log({.level = options.log_level}, clock);
  StreamLogger& logger = log.logger();
  PrometheusMetrics metrics;
  const std::string name(to_string(options.store.queue));  // as in the lines of the log
  Observer& observer = metrics.observer({name, options.store.queue});
  Dispatcher dispatcher(store.queue(), command_handlers(options, guard, log),
                        dispatcher_options(options), {logger, observer, clock});
  const auto endpoint = serve_metrics(metrics, dispatcher, options, logger, clock);
  return run_to_the_end(dispatcher, signals, console, log, options);
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
ExitCode work_on_many(Console& console, Signals& signals, CommandGuard& guard,
                      const WorkOptions& options) {
  const StoreFile file(options.store_file);
  // What is wrong with it is told now.
  require_files_for(options.concurrency, file.read().size());
  const SystemClock clock;
  ProcessLog log({.level = options.log_level}, clock);
  StreamLogger& logger = log.logger();
  StoreOpener opener;
  StoreSet stores(
      [&] { return file.read(); },
      [&](const StoreLocation& location) { return opener.open(location.url, own_credentials()); },
      {}, {.logger = logger});
  const StoreFileWatch watch(file, stores);
  PrometheusMetrics metrics;
  SetDispatcher dispatcher(
      stores, command_handlers(options, guard, log), selection_of(options.strategy),
      {.dispatcher = dispatcher_options(options)}, {logger, metrics.observers(), clock});
  const auto endpoint = serve_metrics(metrics, dispatcher, options, logger, clock);
  return run_to_the_end(dispatcher, signals, console, log, options);
}

/// With many stores some options of one make no sense.
void require_for_many(const WorkOptions& options) {
  if (options.store.queue != QueueKind::inbox) {
    throw Failure(ExitCode::usage, "--stores works on inboxes; leave out --queue");
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
  CommandGuard guard;  // before any thread
  if (options.store_file.empty()) {
    if (options.strategy) throw Failure(ExitCode::usage, "--strategy is for --stores");
    return work_on_one(console, signals, guard, options);
  }
  require_for_many(options);
  return work_on_many(console, signals, guard, options);
}

std::vector<ProgramEnd> ends_of_commands() {
  return {
      {"0", "the message is done"},
      {"65", "it failed for good: the message is dead"},
      {"79", "it was not tried: it comes again after 10s, and no try is counted"},
      {"75, any other", "it failed, as after a signal or a timeout, and is tried again"},
  };
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
          "ONCEBOX_SOURCE, ONCEBOX_MESSAGE_ID, ONCEBOX_MESSAGE_FILE, ONCEBOX_TOPIC, "
          "ONCEBOX_ATTEMPT (1 at first), ONCEBOX_DELIVERY, ONCEBOX_PARTITION_KEY (if there is "
          "one), and each header as ONCEBOX_HEADER_NAME in capitals, with _ for every byte that "
          "is no letter or digit. Headers that would share a variable (a-b, a_b, A b) are left "
          "out; ONCEBOX_AMBIGUOUS_HEADERS names such variables, with blanks between. "
          "ONCEBOX_HEADERS has all headers as a JSON object; it is not set when it would exceed "
          "128 KiB, which is the most that one variable can have. With --stores the command also "
          "gets ONCEBOX_STORE, the name of the store.\n\n"
          "The sender chooses source, id, topic, partition key and headers. Quote them, and build "
          "no path from them: an id can be ../../etc/passwd. ONCEBOX_MESSAGE_FILE is a safe name "
          "for a file, always the same for the same message: the first 40 hex digits of the "
          "SHA-256 of source, NUL and id (with --stores, of store, NUL, source, NUL and id).\n\n"
          "Every other variable of this program that begins with ONCEBOX_ is kept from the "
          "command, and so is PGPASSWORD if the store can be PostgreSQL: they hold tokens and "
          "passwords. A command that calls oncebox itself needs its own --url and "
          "--token-file.\n\n"
          "Its exit code decides, see the table. The last line that it wrote to standard error is "
          "kept with the message as the reason. A message can come twice when a machine fails: the "
          "command must be idempotent.\n\n"
          "A command can also say when the message comes again. It writes a line to the file that "
          "ONCEBOX_REPLY names (/dev/fd/3, which is open already): retry-after 30s when it failed, "
          "which counts as a try; not-now 30s when it did not try, because something that it needs "
          "is busy or away, which does not count. The last line holds. It has no effect with the "
          "exit codes 0 and 65. A command that is ended by a signal or a timeout has tried, "
          "whatever it wrote.\n\n"
          "The rule that the store keeps for a topic (oncebox topics set) says when and how often "
          "its messages are tried again, unless --retry-delay or --max-attempts says otherwise."
          "\n\n"
          "SIGTERM or SIGINT ends the work in order: no new messages, commands may finish within "
          "--finish-within, then their process groups get SIGTERM, and SIGKILL after --grace; "
          "their messages are released without counting a try. A second signal does the same at "
          "once.\n\n"
          "When this program is killed or crashes, the process groups of its running commands are "
          "killed at once (SIGKILL) by a small process beside it, oncebox-guard. A process that "
          "leaves the group of its command, with setsid for example, or runs as another user, is "
          "not reached.",
      .options = joined(work_options(*options), queue_options(options->store)),
      .rest = {.value = "COMMAND [ARGUMENT...]",
               .text = "the program to run, and its arguments",
               .take = into(options->command),
               .ends = ends_of_commands()},
      .examples =
          {{"oncebox work --topic 'mail.*' --concurrency 8 -- ./send-mail --verbose",
            "Eight mails at a time"},
           {"oncebox work --drain -- sh -c 'cat > \"inbox/$ONCEBOX_MESSAGE_FILE\"'",
            "Store what is there in files, then end"},
           {"oncebox work -- sh -c './deliver || { echo retry-after 5m > \"$ONCEBOX_REPLY\"; "
            "exit 1; }'",
            "Try again after five minutes, and not when the rule of the topic says so"},
           {"oncebox work --metrics-port 9090 -- ./handle",
            "With metrics for Prometheus, at http://127.0.0.1:9090/metrics"},
           {"oncebox work --stores tenants.toml -- ./handle",
            "For every tenant's database, none of which starves another"}},
      .run = [options](Console& console) { return work(console, *options); }};
}

}  // namespace oncebox::app
