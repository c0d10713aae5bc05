#include "record_view.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "printable.hpp"
#include "table.hpp"

namespace oncebox::app {
namespace {

/// What a message is doing: its status, and for one in processing whether somebody has it.
Cell state_of(const MessageRecord& record, TimePoint now) {
  switch (record.status) {
    case Status::seen:
      return {"seen", Style::dim};
    case Status::done:
      return {"done", Style::green};
    case Status::dead:
      return {"dead", Style::red};
    case Status::processing:
      break;
  }
  if (record.lease && record.lease->live_at(now)) return {"leased", Style::yellow};
  if (record.eligible_at && *record.eligible_at > now) return {"waiting", Style::plain};
  return {"ready", Style::plain};
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

void add_time(Details& details, std::string_view name, const std::optional<TimePoint>& time) {
  if (time) details.add(name, format_rfc3339(*time));
}

void add_history(Details& details, const MessageRecord& record) {
  const MessageHistory& history = record.history;
  add_time(details, "first seen", history.first_seen_at);
  add_time(details, "last seen", history.last_seen_at);
  add_time(details, "claimable", record.eligible_at);
  add_time(details, "finished", record.finished_at);
  if (record.lease) {
    details.add("leased by",
                fmt::format("{}, delivery {}, until {}", record.lease->owner.to_string(),
                            static_cast<std::uint64_t>(record.lease->delivery),
                            format_rfc3339(record.lease->locked_until)));
  }
  details.add("failed attempts", fmt::format("{}", history.attempt));
  details.add("deliveries",
              fmt::format("{}, of which {} lapsed", history.deliveries, history.lapses));
  details.add("duplicates", fmt::format("{}", history.duplicates));
  details.add("content version", fmt::format("{}", history.content_version));
  if (history.last_error) details.add("last error", *history.last_error, Style::red);
  if (record.revivals.count > 0) {
    details.add("revived", fmt::format("{} times, last at {}: {}", record.revivals.count,
                                       format_rfc3339(record.revivals.last_at.value_or(kMinTime)),
                                       record.revivals.last_reason.value_or("")));
  }
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

void print_messages(Output& out, std::span<const MessageRecord> records, TimePoint now) {
  Table table({{.title = "STATE"},
               {.title = "TOPIC", .shrinks = Shrinks::yes},
               {.title = "SOURCE", .shrinks = Shrinks::yes},
               {.title = "ID", .shrinks = Shrinks::yes},
               {.title = "FAILED", .align = Align::right},
               {.title = "FIRST SEEN"},
               {.title = "LAST ERROR", .shrinks = Shrinks::yes}});
  for (const MessageRecord& record : records) {
    table.add({state_of(record, now),
               {record.message ? record.message->topic.str() : "-"},
               {record.key.source.str()},
               {record.key.message_id.str()},
               {fmt::format("{}", record.history.attempt)},
               {short_time(record.history.first_seen_at)},
               {first_line(record.history.last_error.value_or(""))}});
  }
  table.print(out);
}

void print_message(Output& out, const MessageRecord& record, TimePoint now) {
  Details details;
  const Cell state = state_of(record, now);
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
  if (!record.message || record.message->payload.size() == 0) return;
  std::string payload = printable_lines(record.message->payload.bytes());
  if (payload.back() == '\n') payload.pop_back();
  out.line("\n" + payload);
}

void print_stats(Output& out, const QueueStats& stats, TimePoint now) {
  Table table({{.title = "TOPIC", .shrinks = Shrinks::yes},
               {.title = "READY", .align = Align::right},
               {.title = "WAITING", .align = Align::right},
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
               {grouped(row.waiting)},
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
