#include "record_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "printable.hpp"
#include "table.hpp"

namespace oncebox::app {
namespace {

Style style_of(State state) {
  switch (state) {
    case State::seen:
      return Style::dim;
    case State::leased:
      return Style::yellow;
    case State::done:
      return Style::green;
    case State::dead:
      return Style::red;
    case State::waiting:
    case State::ready:
      break;
  }
  return Style::plain;
}

/// "ready", or "waiting: backoff".
Cell state_of(const MessageRecord& record) {
  std::string text(to_string(record.state));
  if (record.waiting_for) text += fmt::format(": {}", to_string(*record.waiting_for));
  return {std::move(text), style_of(record.state)};
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

void add_time(Details& details, std::string_view name, const std::optional<TimePoint>& time) {
  if (time) details.add(name, format_rfc3339(*time));
}

// An owner token says who only where no name was kept.
std::string worker_text(const MessageLease& lease) {
  return lease.worker ? lease.worker->str() : lease.owner.to_string();
}

void add_history(Details& details, const MessageRecord& record) {
  const MessageHistory& history = record.history;
  add_time(details, "first seen", history.first_seen_at);
  add_time(details, "last seen", history.last_seen_at);
  add_time(details, "claimable", record.eligible_at);
  add_time(details, "finished", record.finished_at);
  if (record.lease) {
    const MessageLease& lease = *record.lease;
    details.add("leased by", worker_text(lease));
    add_time(details, "leased at", lease.leased_at);
    add_time(details, "leased until", lease.locked_until);
    details.add("delivery", fmt::format("{}, owner {}", static_cast<std::uint64_t>(lease.delivery),
                                        lease.owner.to_string()));
  }
  details.add("failed attempts", fmt::format("{}", history.attempt));
  details.add("deliveries", fmt::format("{}, of which {} ended without a settlement",
                                        history.deliveries, history.lapses));
  details.add("duplicates", fmt::format("{}", history.duplicates));
  details.add("content version", fmt::format("{}", history.content_version));
  if (history.last_error) details.add("last error", *history.last_error, Style::red);
  if (record.revivals.count > 0) {
    details.add("revived", fmt::format("{} times, last at {}: {}", record.revivals.count,
                                       format_rfc3339(record.revivals.last_at.value_or(kMinTime)),
                                       record.revivals.last_reason.value_or("")));
  }
}

std::string error_of(const Attempt& attempt) {
  const std::string error = first_line(attempt.error);
  if (attempt.error_kind.empty() || error.empty()) return attempt.error_kind + error;
  return attempt.error_kind + ": " + error;
}

void print_attempts(Output& out, std::span<const Attempt> attempts) {
  if (attempts.empty()) return;
  Table table({{.title = "ATTEMPT", .align = Align::right},
               {.title = "BEGUN"},
               {.title = "ENDED"},
               {.title = "OUTCOME"},
               {.title = "WORKER", .shrinks = Shrinks::yes},
               {.title = "ERROR", .shrinks = Shrinks::yes}});
  for (const Attempt& attempt : attempts) {
    table.add({{fmt::format("{}", attempt.number)},
               {attempt.begun_at ? short_time(*attempt.begun_at) : "-"},
               {short_time(attempt.ended_at)},
               {std::string(to_string(attempt.outcome))},
               {attempt.worker ? attempt.worker->str() : "-"},
               {error_of(attempt)}});
  }
  out.line("");
  table.print(out);
}

void add_content(Details& details, const Message& message) {
  if (message.priority.value() != 0) {
    details.add("priority", fmt::format("{}", message.priority.value()));
  }
  if (message.partition_key) details.add("partition key", message.partition_key->str());
  add_time(details, "due", message.due_at);
  add_time(details, "expires", message.expires_at);
  for (const auto& [name, value] : message.headers) details.add("header " + printable(name), value);
}

}  // namespace

std::string short_time(TimePoint time) {
  std::string text = format_rfc3339(time).substr(0, 19);
  text[10] = ' ';
  return text;
}

std::string age(TimePoint time, TimePoint now) {
  using namespace std::chrono;
  const Duration past = std::max(now - time, Duration::zero());
  if (past < minutes{1}) return fmt::format("{}s", duration_cast<seconds>(past).count());
  if (past < hours{1}) return fmt::format("{}m", duration_cast<minutes>(past).count());
  if (past < days{2}) return fmt::format("{}h", duration_cast<hours>(past).count());
  return fmt::format("{}d", duration_cast<days>(past).count());
}

std::string grouped(std::size_t number) {
  std::string text = fmt::format("{}", number);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

void print_messages(Output& out, std::span<const MessageRecord> records) {
  const auto is_leased = [](const MessageRecord& record) { return record.lease.has_value(); };
  const bool has_leased = std::ranges::any_of(records, is_leased);
  std::vector<Column> columns{{.title = "STATE"},
                              {.title = "TOPIC", .shrinks = Shrinks::yes},
                              {.title = "SOURCE", .shrinks = Shrinks::yes},
                              {.title = "ID", .shrinks = Shrinks::yes},
                              {.title = "FAILED", .align = Align::right},
                              {.title = "FIRST SEEN"},
                              {.title = "LAST ERROR", .shrinks = Shrinks::yes}};
  if (has_leased) columns.push_back({.title = "LEASED BY", .shrinks = Shrinks::yes});
  Table table(std::move(columns));
  for (const MessageRecord& record : records) {
    std::vector<Cell> row{state_of(record),
                          {record.message ? record.message->topic.str() : "-"},
                          {record.key.source.str()},
                          {record.key.message_id.str()},
                          {fmt::format("{}", record.history.attempt)},
                          {short_time(record.history.first_seen_at)},
                          {first_line(record.history.last_error.value_or(""))}};
    if (has_leased) row.push_back({record.lease ? worker_text(*record.lease) : ""});
    table.add(std::move(row));
  }
  table.print(out);
}

void print_message(Output& out, const MessageRecord& record) {
  Details details;
  const Cell state = state_of(record);
  details.add("source", record.key.source.str());
  details.add("id", record.key.message_id.str());
  details.add("state", state.text, state.style);
  if (record.message) details.add("topic", record.message->topic.str());
  add_history(details, record);
  if (record.hash) {
    details.add("hash", record.hash->algorithm() + ":" + record.hash->digest_hex());
  }
  if (record.message) {
    add_content(details, *record.message);
    details.add("payload", fmt::format("{} bytes", grouped(record.message->payload.size())));
  }
  details.print(out);
  print_attempts(out, record.attempts);
  if (!record.message || record.message->payload.size() == 0) return;
  std::string payload = printable_lines(record.message->payload.bytes());
  if (payload.back() == '\n') payload.pop_back();
  out.line("\n" + payload);
}

namespace {

/// "backoff 2, due 1"
std::string reasons(WaitingCounts waiting) {
  std::string text;
  for (const WaitingFor what : kEveryWaitingFor) {
    if (waiting.of(what) == 0) continue;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", to_string(what), grouped(waiting.of(what)));
  }
  return text.empty() ? "-" : text;
}

}  // namespace

void print_stats(Output& out, const QueueStats& stats, TimePoint now) {
  Table table({{.title = "TOPIC", .shrinks = Shrinks::yes},
               {.title = "READY", .align = Align::right},
               {.title = "WAITING", .align = Align::right},
               {.title = "FOR", .shrinks = Shrinks::yes},
               {.title = "LEASED", .align = Align::right},
               {.title = "DONE", .align = Align::right},
               {.title = "DEAD", .align = Align::right},
               {.title = "SEEN", .align = Align::right},
               {.title = "OLDEST READY", .align = Align::right},
               {.title = "OLDEST DEAD", .align = Align::right}});
  const auto add = [&](const std::string& topic, const TopicStats& row) {
    const auto since = [&](const std::optional<TimePoint>& time) {
      return time ? age(*time, now) : std::string("-");
    };
    table.add({{topic},
               {grouped(row.ready)},
               {grouped(row.waiting.total())},
               {reasons(row.waiting)},
               {grouped(row.leased)},
               {grouped(row.done)},
               {grouped(row.dead), row.dead > 0 ? Style::red : Style::plain},
               {grouped(row.seen)},
               {since(row.oldest_ready_at)},
               {since(row.oldest_dead_at)}});
  };
  for (const TopicStats& row : stats.topics) add(row.topic ? row.topic->str() : "(none)", row);
  add("all topics", stats.total());
  table.print(out);
}

void print_workers(Output& out, std::span<const WorkerRecord> workers, TimePoint now) {
  Table table({{.title = "WORKER", .shrinks = Shrinks::yes},
               {.title = "LEASES", .align = Align::right},
               {.title = "SINCE"},
               {.title = "LAST SEEN", .align = Align::right}});
  for (const WorkerRecord& worker : workers) {
    table.add({{worker.name.str()},
               {grouped(worker.leases)},
               {short_time(worker.since)},
               {age(worker.last_seen_at, now) + " ago"}});
  }
  table.print(out);
}

void print_key(Output& out, const KeyRecord& record, TimePoint now) {
  Details details;
  details.add("key", record.key.str());
  std::string status(to_string(record.status));
  if (record.status == KeyStatus::in_progress && record.lease_until && *record.lease_until <= now) {
    status += " (the lease has lapsed)";
  }
  details.add("status", status);
  details.add("attempts", fmt::format("{}", record.attempts));
  add_time(details, "first seen", record.first_seen_at);
  add_time(details, "last seen", record.last_seen_at);
  add_time(details, "leased until", record.lease_until);
  add_time(details, "kept until", record.keep_until);
  if (!record.owner.empty()) details.add("owner", record.owner);
  if (record.error) details.add("error", *record.error, Style::red);
  if (record.result) {
    details.add("result", fmt::format("{} bytes", grouped(record.result->size())));
  }
  details.print(out);
  if (record.result && !record.result->empty()) out.line("\n" + printable_lines(*record.result));
}

}  // namespace oncebox::app
