#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <thread>
#include <utility>

#include "choices.hpp"
#include "commands/commands.hpp"
#include "failure.hpp"
#include "files.hpp"
#include "json_output.hpp"
#include "line_reader.hpp"
#include "oncebox/internal/backoff.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/message_json.hpp"
#include "oncebox/wire/queue_json.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "progress.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kMaxPayloadBytes = 256 << 20;
constexpr std::size_t kMaxBatchBytes = 4 << 20;
constexpr std::size_t kReportedLines = 10;

struct SendOptions {
  StoreOptions store = {};
  // One message.
  std::optional<Topic> topic = {};
  std::optional<MessageId> id = {};
  std::optional<std::string> data = {};
  std::optional<std::string> file = {};
  Headers headers = {};
  int priority = 0;
  std::optional<PartitionKey> partition_key = {};
  std::optional<TimePoint> due_at = {};
  std::optional<TimePoint> expires_at = {};
  // Many.
  std::optional<std::string> ndjson = {};
  std::size_t batch = 500;
  // Both.
  Source source = "cli";
  EnqueueOptions enqueue = {};
  bool no_hash = false;
  Duration retry_for = std::chrono::seconds{30};
};

/// Counts by outcome.
class Tally {
 public:
  void add(const EnqueueOutcome& outcome) {
    ++counts_[static_cast<std::size_t>(outcome.status)];
    if (outcome.hash_mismatch) ++mismatches_;
  }
  [[nodiscard]] std::size_t of(EnqueueStatus status) const {
    return counts_[static_cast<std::size_t>(status)];
  }
  [[nodiscard]] std::size_t refused() const {
    return of(EnqueueStatus::rejected) + of(EnqueueStatus::quarantined);
  }
  [[nodiscard]] std::size_t mismatches() const noexcept { return mismatches_; }
  [[nodiscard]] std::size_t total() const {
    std::size_t sum = 0;
    for (const std::size_t count : counts_) sum += count;
    return sum;
  }
  template <class Visit>
  void each(const Visit& visit) const {
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] > 0) visit(static_cast<EnqueueStatus>(i), counts_[i]);
    }
  }

 private:
  std::array<std::size_t, static_cast<std::size_t>(EnqueueStatus::quarantined) + 1> counts_{};
  std::size_t mismatches_ = 0;
};

/// Repeats what may succeed later. That is safe: the store recognises what it has already.
std::vector<EnqueueOutcome> enqueue_patiently(QueueStore& queue, std::span<const Message> messages,
                                              const SendOptions& options) {
  const auto give_up_at = std::chrono::steady_clock::now() + options.retry_for;
  detail::Backoff pauses({.first = Duration{100}, .longest = std::chrono::seconds{5}});
  for (;;) {
    try {
      return queue.enqueue(messages, options.enqueue);
    } catch (const Error& error) {
      const auto next_try_at = std::chrono::steady_clock::now() + pauses.pause();
      if (!error.retryable() || next_try_at > give_up_at) throw;
    }
    std::this_thread::sleep_for(pauses.take());
  }
}

void add_hash(Message& message, const SendOptions& options) {
  if (!message.hash && !options.no_hash) message.hash = ContentHash::sha256_of(message.payload);
}

Message single_message(const SendOptions& options) {
  if (!options.topic) throw Failure(ExitCode::usage, "--topic is missing");
  if (options.data && options.file) {
    throw Failure(ExitCode::usage, "--data and --file exclude each other");
  }
  const TimePoint now = SystemClock::current();
  Message message{.key = {options.source,
                          options.id ? *options.id : MessageId(Uuid::generate_v7(now).to_string())},
                  .topic = *options.topic,
                  .headers = options.headers,
                  .priority = Priority(options.priority),
                  .partition_key = options.partition_key,
                  .due_at = options.due_at,
                  .expires_at = options.expires_at};
  message.payload = options.data ? Payload(*options.data)
                                 : Payload(read_file(options.file.value_or("-"), kMaxPayloadBytes));
  add_hash(message, options);
  return message;
}

/// Each line says all of this itself.
void refuse_options_of_one_message(const SendOptions& options) {
  if (options.topic || options.id || options.data || options.file || options.partition_key ||
      options.due_at || options.expires_at || options.priority != 0) {
    throw Failure(ExitCode::usage,
                  "--ndjson goes only with --source and --header: the lines say the rest");
  }
}

ExitCode send_one(Console& console, const SendOptions& options) {
  const Message message = single_message(options);
  const OpenStore store(options.store);
  const EnqueueOutcome outcome = enqueue_patiently(store.queue(), {&message, 1}, options).front();
  if (options.store.json) {
    console.out.line(wire::write_enqueued(message.key, outcome));
  } else {
    std::string line =
        fmt::format("{} {}", to_string(outcome.status), printable(message.key.message_id.str()));
    if (outcome.quarantined_as) {
      line += " as " + printable(outcome.quarantined_as->str());
    }
    if (outcome.hash_mismatch) line += " (the content differs from what was stored)";
    console.out.line(line);
  }
  const bool refused =
      outcome.status == EnqueueStatus::rejected || outcome.status == EnqueueStatus::quarantined;
  return refused ? ExitCode::failed : ExitCode::ok;
}

/// Sends the lines of a file, batch by batch.
class LineSender {
 public:
  LineSender(Console& console, const SendOptions& options)
      : console_(console), options_(options), store_(options.store), lines_(*options.ndjson) {}

  ExitCode run() {
    {
      Progress progress(console_.err);
      while (const auto line = lines_.next()) {
        take(*line);
        const bool is_full = batch_.size() >= options_.batch || batch_bytes_ >= kMaxBatchBytes;
        // Whoever writes slowly has each line stored, not the batch it may belong to one day.
        if (is_full || lines_.would_wait()) flush();
        progress.show({tally_.total(), lines_.bytes_read(), lines_.size()});
      }
      flush();
    }
    print_summary();
    if (bad_lines_ > 0) return ExitCode::bad_data;
    return tally_.refused() > 0 ? ExitCode::failed : ExitCode::ok;
  }

 private:
  void take(const LineReader::Line& line) {
    if (line.text.find_first_not_of(" \t\r") == std::string_view::npos) return;
    try {
      if (line.too_long) throw Error(ErrorCode::invalid_argument, "the line is too long");
      Message message = wire::read_message(line.text, defaults_);
      add_hash(message, options_);
      batch_bytes_ += line.text.size();
      batch_.push_back(std::move(message));
    } catch (const Error& error) {
      ++bad_lines_;
      if (bad_lines_ <= kReportedLines) {
        console_.err.line(fmt::format("{}line {}: {}", console_.err.is_terminal() ? "\r\x1b[K" : "",
                                      lines_.number(), printable(error.what())));
      }
    }
  }

  void flush() {
    if (batch_.empty()) return;
    for (const EnqueueOutcome& outcome : enqueue_patiently(store_.queue(), batch_, options_)) {
      tally_.add(outcome);
    }
    batch_.clear();
    batch_bytes_ = 0;
  }

  void print_summary() {
    if (options_.store.json) {
      std::vector<JsonField> fields;
      tally_.each([&](EnqueueStatus status, std::size_t count) {
        fields.emplace_back(wire::count_field(status), count);
      });
      console_.out.line(json_object({{"messages", tally_.total()},
                                     {"badLines", bad_lines_},
                                     {"hashMismatches", tally_.mismatches()},
                                     {"outcomes", RawJson{json_object(fields)}}}));
      return;
    }
    std::string line = fmt::format("sent {} messages", grouped(tally_.total()));
    std::string_view separator = ": ";
    tally_.each([&](EnqueueStatus status, std::size_t count) {
      line += fmt::format("{}{} {}", separator, grouped(count), to_string(status));
      separator = ", ";
    });
    if (tally_.mismatches() > 0) {
      line += fmt::format("; {} differ from what was stored", grouped(tally_.mismatches()));
    }
    if (bad_lines_ > 0) line += fmt::format("; {} lines are no messages", grouped(bad_lines_));
    console_.out.line(line);
  }

  Console& console_;
  const SendOptions& options_;
  OpenStore store_;
  LineReader lines_;
  wire::MessageDefaults defaults_{
      .source = options_.source,
      .make_id =
          [](std::size_t) {
            return MessageId(Uuid::generate_v7(SystemClock::current()).to_string());
          },
      .headers = options_.headers};
  std::vector<Message> batch_;
  std::size_t batch_bytes_ = 0;
  std::size_t bad_lines_ = 0;
  Tally tally_;
};

std::vector<Option> message_options(SendOptions& options) {
  const TimePoint now = SystemClock::current();
  const auto future_into = [now](std::optional<TimePoint>& target) -> TakeValue {
    return [&target, now](const std::string& text) { target = parse_future(text, now); };
  };
  return {
      {.names = "-t,--topic",
       .value = "TOPIC",
       .text = "what the message is about (needed without --ndjson)",
       .take = into(options.topic)},
      {.names = "-d,--data", .value = "TEXT", .text = "the payload", .take = into(options.data)},
      {.names = "-f,--file",
       .value = "FILE",
       .text = "the payload from a file; without --data and --file standard input",
       .take = into(options.file),
       .completes = Completes::file},
      {.names = "--id",
       .value = "ID",
       .text = "the id of the message; a new one when it is left out",
       .take = into(options.id)},
      {.names = "-s,--source",
       .value = "SOURCE",
       .text = "where the message comes from",
       .take = [&options](const std::string& text) { options.source = Source(text); },
       .initial = "cli"},
      {.names = "-H,--header",
       .value = "NAME=VALUE",
       .text = "a header of the message",
       .take =
           [&options](const std::string& text) {
             const NameAndValue header = parse_pair(text);
             options.headers.set(header.name, header.value);
           },
       .occurs = Occurs::repeatedly},
      {.names = "--priority",
       .value = "N",
       .text = "from -100 to 100; higher ones are handed out first",
       .take = into(options.priority),
       .initial = "0"},
      {.names = "--partition-key",
       .value = "KEY",
       .text = "messages with the same key are handled in order, one at a time",
       .take = into(options.partition_key)},
      {.names = "--due",
       .value = "TIME",
       .text = "not handed out before this time; 5m means in five minutes",
       .take = future_into(options.due_at)},
      {.names = "--expires",
       .value = "TIME",
       .text = "not handed out at or after this time",
       .take = future_into(options.expires_at)},
  };
}

std::vector<Option> intake_options(SendOptions& options) {
  return {
      {.names = "--ndjson",
       .value = "FILE",
       .text = "many messages: one JSON object a line, as POST /v1/messages takes it; - is "
               "standard input",
       .take = into(options.ndjson),
       .completes = Completes::file},
      {.names = "--batch",
       .value = "N",
       .text = "messages in one transaction",
       .take =
           [&options](const std::string& text) {
             options.batch = parse_count(text);
             require_in_range("the batch", options.batch, 1, limits::kMaxBatchItems);
           },
       .initial = "500"},
      {.names = "--on-hash-mismatch",
       .value = "POLICY",
       .text = "what to do when an id comes again with other content",
       .take = into(options.enqueue.on_hash_mismatch, kMismatchPolicies),
       .initial = "warn",
       .choices = words_of(kMismatchPolicies)},
      {.names = "--on-dead",
       .value = "POLICY",
       .text = "what to do when a dead message comes again",
       .take = into(options.enqueue.on_dead, kDeadPolicies),
       .initial = "keep",
       .choices = words_of(kDeadPolicies)},
      {.names = "--no-hash",
       .text = "do not hash the payload: other content under a known id is not noticed",
       .take = into(options.no_hash)},
      {.names = "--retry-for",
       .value = "DURATION",
       .text = "how long to repeat what an unreachable or overloaded store did not take",
       .take = into(options.retry_for),
       .initial = format_duration(options.retry_for)},
  };
}

}  // namespace

Command send_command() {
  const auto options = std::make_shared<SendOptions>();
  return {.name = "send",
          .summary = "Send one message, or many from a file",
          .text =
              "A message is known by its source and id: sending it again does not queue it "
              "twice, and the outcome says so. Lines of --ndjson that are no messages are "
              "reported and left out; all others are sent.",
          .options = joined(joined(message_options(*options), intake_options(*options)),
                            queue_options(options->store)),
          .examples = {{"oncebox send --topic order.created --id 42 --data '{\"total\": 99}'",
                        "One message"},
                       {"oncebox send --topic report --file report.pdf --due 1h",
                        "A file, to be handled in an hour"},
                       {"oncebox send --ndjson orders.ndjson", "One message for each line"}},
          .run = [options](Console& console) {
            try {
              if (!options->ndjson) return send_one(console, *options);
              refuse_options_of_one_message(*options);
              return LineSender(console, *options).run();
            } catch (const OutputClosed&) {
              throw Failure(ExitCode::io_error, "nobody reads the output any more");
            }
          }};
}

}  // namespace oncebox::app
