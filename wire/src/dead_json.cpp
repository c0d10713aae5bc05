#include "oncebox/wire/dead_json.hpp"

#include "json_writer.hpp"
#include "message_fields.hpp"

namespace oncebox::wire {

namespace {

/// The members, without the brackets.
void write_dead_group(JsonWriter& writer, const DeadGroup& group) {
  writer.field("group", group.id.str())
      .field("topic", group.id.topic)
      .field("fingerprint", group.id.fingerprint)
      .field("error", group.error)
      .field("count", group.count)
      .field("firstAt", group.first_at)
      .field("lastAt", group.last_at)
      .key("sample")
      .begin_object();
  write_key(writer, group.sample);
  writer.end_object();
}

}  // namespace

std::string write_dead_groups(const DeadGroups& found) {
  JsonWriter writer;
  writer.begin_object().key("groups").begin_array();
  for (const DeadGroup& group : found.groups) {
    writer.begin_object();
    write_dead_group(writer, group);
    writer.end_object();
  }
  writer.end_array()
      .field("messages", found.messages)
      .field("others", found.others)
      .field("complete", found.complete)
      .field("fingerprintVersion", kErrorFingerprintVersion)
      .end_object();
  return std::move(writer).take();
}

std::string write_dead_notice(const DeadNotice& notice, TimePoint now) {
  JsonWriter writer;
  writer.begin_object()
      .field("type", "oncebox.dead")
      .field("timestamp", now)
      .key("data")
      .begin_object()
      .field("store", notice.store)
      .field("queue", notice.queue)
      .field("threshold", notice.threshold);
  if (notice.more_groups > 0) writer.field("moreGroups", notice.more_groups);
  write_dead_group(writer, notice.group);
  return std::move(writer.end_object().end_object()).take();
}

}  // namespace oncebox::wire
