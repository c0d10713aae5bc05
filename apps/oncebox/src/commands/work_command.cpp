#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "child.hpp"
#include "choices.hpp"
#include "commands/commands.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "oncebox/dispatcher.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/outbox_dispatcher.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "signals.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

// What a command's exit code means; every other code means that it failed and is to be tried again.
constexpr int kAck = 0;
constexpr int kPermanentFailure = 65;
constexpr int kTryAgain = 75;

struct WorkOptions {
  StoreOptions store = {};
  std::vector<std::string> topics = {};
  std::vector<std::string> command = {};
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
  LogLevel log_level = LogLevel::warning;
};

/// ONCEBOX_HEADER_CONTENTTYPE for contentType: what is no letter or digit becomes `_`.
std::string header_variable(std::string_view name) {
  std::string variable = "ONCEBOX_HEADER_";
  for (const char character : name) {
    const auto byte = static_cast<unsigned char>(character);
    const bool is_plain = byte < 0x80 && std::isalnum(byte) != 0;
    variable += is_plain ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return variable;
}

constexpr std::string_view kMessageVariables[] = {
    "ONCEBOX_SOURCE=",   "ONCEBOX_MESSAGE_ID=",    "ONCEBOX_TOPIC=", "ONCEBOX_ATTEMPT=",
    "ONCEBOX_DELIVERY=", "ONCEBOX_PARTITION_KEY=", "ONCEBOX_HEADER_"};

/// Our own environment without what would be taken for a field of the message.
std::vector<std::string> base_environment() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool is_field =
        std::any_of(std::begin(kMessageVariables), std::end(kMessageVariables),
                    [&](std::string_view name) { return text.starts_with(name); });
    if (!is_field) variables.emplace_back(text);
  }
  return variables;
}

/// Runs the command for one message after the other, from several threads at once.
class CommandHandler final : public Handler {
 public:
  explicit CommandHandler(const WorkOptions& options)
      : options_(options), environment_(base_environment()) {}

  void handle(const ClaimedMessage& claimed, HandlerContext& context) override {
    const ChildRequest request{.command = options_.command,
                               .environment = environment_for(claimed),
                               .input = claimed.message.payload.bytes(),
                               .timeout = options_.timeout,
                               .grace = options_.grace};
    const ChildResult result =
        run_child(request, context.stop_token(), [this](std::string_view line) { pass_on(line); });
    judge(result);
  }

 private:
  [[nodiscard]] std::vector<std::string> environment_for(const ClaimedMessage& claimed) const {
    std::vector<std::string> variables = environment_;
    const Message& message = claimed.message;
    variables.push_back("ONCEBOX_SOURCE=" + message.key.source.str());
    variables.push_back("ONCEBOX_MESSAGE_ID=" + message.key.message_id.str());
    variables.push_back("ONCEBOX_TOPIC=" + message.topic.str());
    variables.push_back(fmt::format("ONCEBOX_ATTEMPT={}", claimed.history.attempt + 1));
    variables.push_back(
        fmt::format("ONCEBOX_DELIVERY={}", static_cast<std::uint64_t>(claimed.delivery)));
    if (message.partition_key) {
      variables.push_back("ONCEBOX_PARTITION_KEY=" + message.partition_key->str());
    }
    for (const auto& [name, value] : message.headers) {
      variables.push_back(header_variable(name) + "=" + value);
    }
    return variables;
  }

  /// Whole lines, so that those of several commands do not mix.
  void pass_on(std::string_view line) {
    const std::string text = std::string(line) + "\n";
    const std::scoped_lock lock(mutex_);
    // Where it cannot be written nobody can be told so.
    (void)!write(STDERR_FILENO, text.data(), text.size());
  }

  /// Throws what the dispatcher takes for this end; returns when the message is done.
  void judge(const ChildResult& result) const {
    const std::string& said = result.last_error_line;
    const auto with_reason = [&](const std::string& what) {
      return said.empty() ? what : fmt::format("{}: {}", what, said);
    };
    switch (result.end) {
      case ChildResult::End::stopped:
        throw std::runtime_error("stopped");
      case ChildResult::End::timed_out:
        throw std::runtime_error(
            with_reason(fmt::format("timed out after {}", format_duration(options_.timeout))));
      case ChildResult::End::killed:
        throw std::runtime_error(with_reason(fmt::format("killed by signal {}", result.signal)));
      case ChildResult::End::exited:
        break;
    }
    if (result.exit_code == kAck) return;
    if (result.exit_code == kPermanentFailure) {
      throw PermanentFailure(said.empty() ? "exit code 65" : said);
    }
    if (result.exit_code == kTryAgain && !said.empty()) throw std::runtime_error(said);
    throw std::runtime_error(with_reason(fmt::format("exit code {}", result.exit_code)));
  }

  const WorkOptions& options_;
  std::vector<std::string> environment_;
  std::mutex mutex_;
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
void require_files_for(std::size_t concurrency) {
  constexpr rlim_t kEach = 6;
  constexpr rlim_t kOthers = 64;
  const rlim_t needed = kEach * concurrency + kOthers;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  if (files.rlim_cur < needed) {
    files.rlim_cur = std::min(needed, files.rlim_max);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (files.rlim_cur < needed) {
    throw Failure(ExitCode::usage,
                  fmt::format("{} commands at once need {} open files; raise the limit (ulimit -n) "
                              "or lower --concurrency",
                              concurrency, needed));
  }
}

void wait_for_the_end(Dispatcher& dispatcher, Signals& signals, const WorkOptions& options) {
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
StopResult stop_in_order(Dispatcher& dispatcher, Signals& signals, const WorkOptions& options) {
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

RetryPolicies retries_of(const WorkOptions& options) {
  const bool is_outbox = options.store.queue == QueueChoice::outbox;
  RetryPolicy policy = is_outbox ? outbox_retry_policy() : RetryPolicy{};
  if (options.max_attempts) {
    policy.max_attempts = *options.max_attempts;
    policy.give_up_after.reset();  // whoever counts attempts wants no other end
  }
  if (options.retry_delay) policy.backoff = ExponentialBackoff{*options.retry_delay};
  if (options.max_retry_delay) policy.max_delay = *options.max_retry_delay;
  return RetryPolicies(policy);
}

ExitCode work(Console& console, WorkOptions& options) {
  if (!is_executable(options.command.front())) {
    throw Failure(ExitCode::usage, fmt::format("{} is no program that can be executed",
                                               printable(options.command.front())));
  }
  require_files_for(options.concurrency);
  Signals signals({SIGINT, SIGTERM, SIGHUP});
  const OpenStore store(options.store);
  // A store that cannot be used is told now; later the dispatcher would try for ever.
  (void)store.queue().next_due({});
  Handlers handlers;
  const auto handler = std::make_shared<CommandHandler>(options);
  if (options.topics.empty()) options.topics.emplace_back("*");
  for (const std::string& topic : options.topics) handlers.on(TopicPattern(topic), handler);

  const SystemClock clock;
  TextLogger logger(std::cerr, clock, options.log_level);
  Observer observer;
  Dispatcher dispatcher(store.queue(), handlers,
                        {.name = options.store.queue == QueueChoice::inbox ? "inbox" : "outbox",
                         .workers = options.concurrency,
                         .batch_size = std::min(defaults::kBatchSize, 2 * options.concurrency),
                         // A command takes long: what is not begun is better left to others.
                         .max_buffered = options.concurrency,
                         .lease = options.lease,
                         .poll_interval = options.poll_interval,
                         .retries = retries_of(options),
                         .no_handler = NoHandlerPolicy::ignore},
                        logger, observer, clock);
  dispatcher.start();
  wait_for_the_end(dispatcher, signals, options);
  const StopResult left = stop_in_order(dispatcher, signals, options);
  print_work_done(console, options, dispatcher.stats());
  return left.complete() ? ExitCode::ok : ExitCode::failed;
}

std::vector<Option> work_options(WorkOptions& options) {
  return {
      {.names = "-t,--topic",
       .value = "TOPIC",
       .text = "only messages of this topic; order.* means all that begin with order.",
       .take = into(options.topics),
       .occurs = Occurs::repeatedly},
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
       .initial = "10; with --queue outbox 20, and not before it is 3 days old"},
      {.names = "--retry-delay",
       .value = "DURATION",
       .text = "doubled with every failure to get the time until the next try",
       .take = into(options.retry_delay),
       .initial = "1s"},
      {.names = "--max-retry-delay",
       .value = "DURATION",
       .text = "the longest time until the next try",
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
          "capitals, with _ for what is no letter or digit.\n\n"
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
                    "Store what is there in files, then end"}},
      .run = [options](Console& console) { return work(console, *options); }};
}

}  // namespace oncebox::app
