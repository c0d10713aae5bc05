#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "acting_user.hpp"
#include "commands/dead_edit_commands.hpp"
#include "failure.hpp"
#include "files.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/edit_json.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr std::size_t kMaxEditBytes = 256 << 20;

struct KeyArguments {
  std::optional<Source> source = {};
  std::optional<MessageId> id = {};

  [[nodiscard]] MessageKey key() const { return {*source, *id}; }
};

std::vector<Argument> key_arguments(KeyArguments& arguments) {
  return {{.value = "SOURCE", .text = "the source of the message", .take = into(arguments.source)},
          {.value = "ID", .text = "the id of the message", .take = into(arguments.id)}};
}

std::string_view edit_text(ReviveOutcome outcome) {
  switch (outcome) {
    case ReviveOutcome::revived:
      return "revived with the new payload";
    case ReviveOutcome::not_dead:
      return "the message is not dead";
    case ReviveOutcome::no_content:
      return "the message was never enqueued: it has no payload to edit";
    case ReviveOutcome::unknown:
      break;
  }
  return "there is no such message";
}

struct EditOptions {
  StoreOptions store = {};
  KeyArguments message = {};
  std::optional<std::string> payload = {};
  ReviveOptions revive = {};
};

ExitCode edit(Console& console, const EditOptions& options) {
  if (!options.payload) throw Failure(ExitCode::usage, "--payload is missing");
  const std::vector<EditedMessage> edits{
      {.key = options.message.key(), .payload = read_file(*options.payload, kMaxEditBytes)}};
  ReviveOptions revive = options.revive;
  revive.actor = acting_user();
  const OpenStore store(options.store);
  const std::vector<ReviveOutcome> outcomes = audited(
      store.store().audit(),
      {.actor = revive.actor,
       .action = AuditAction::revive_edited,
       .part = audited_part(store.kind()),
       .subject = wire::audit_subject(std::vector{edits.front().key}),
       .reason = revive.reason},
      [&] { return store.queue_operator().revive_edited(edits, revive); },
      [](const std::vector<ReviveOutcome>& all) {
        return static_cast<std::size_t>(std::ranges::count(all, ReviveOutcome::revived));
      });
  console.out.line(options.store.json ? wire::write_revived(outcomes)
                                      : std::string(edit_text(outcomes.front())));
  return outcomes.front() == ReviveOutcome::revived ? ExitCode::ok : ExitCode::failed;
}

struct HistoryOptions {
  StoreOptions store = {};
  KeyArguments message = {};
  std::optional<int> version = {};
};

void print_history(Output& out, std::span<const PastContent> contents) {
  Table table({{"VERSION", Align::right},
               {"REPLACED"},
               {"BY"},
               {"BYTES", Align::right},
               {"REASON", Align::left, Shrinks::yes}});
  for (const PastContent& past : contents) {
    table.add({{fmt::format("{}", past.content_version)},
               {short_time(past.replaced_at)},
               {past.replaced_by},
               {grouped(past.payload.size())},
               {past.reason}});
  }
  table.print(out);
}

ExitCode show_history(Console& console, const HistoryOptions& options) {
  const OpenStore store(options.store);
  const std::vector<PastContent> contents =
      store.queue_operator().past_contents(options.message.key());
  if (options.version) {
    const auto past = std::ranges::find(contents, *options.version, &PastContent::content_version);
    if (past == contents.end()) {
      throw Failure(ExitCode::failed, "no payload of this version is kept");
    }
    const std::string& bytes = past->payload.bytes();
    console.out.write(console.out.is_terminal() ? printable_lines(bytes) + "\n" : bytes);
  } else if (options.store.json) {
    console.out.line(wire::write_past_contents(contents));
  } else {
    print_history(console.out, contents);
  }
  return ExitCode::ok;
}

}  // namespace

Command dead_edit_command() {
  const auto options = std::make_shared<EditOptions>();
  return {.name = "edit",
          .summary = "Bring a dead message back with another payload",
          .text =
              "Its headers stay. What it had is kept, with who replaced it, when and why: see "
              "oncebox dead history.",
          .options = joined({{.names = "--payload",
                              .value = "FILE",
                              .text = "the new payload, from a file or - for standard input "
                                      "(needed)",
                              .take = into(options->payload),
                              .completes = Completes::file},
                             {.names = "--delay",
                              .value = "DURATION",
                              .text = "not before this time has passed",
                              .take = into(options->revive.delay)},
                             {.names = "--reason",
                              .value = "TEXT",
                              .text = "kept with the message, what it had, and in the audit trail",
                              .take = into(options->revive.reason)}},
                            queue_options(options->store)),
          .arguments = key_arguments(options->message),
          .examples = {{"oncebox dead edit shop evt_1 --payload fixed.json --reason 'a typo'",
                        "Correct a message"}},
          .run = [options](Console& console) { return edit(console, *options); }};
}

Command dead_history_command() {
  const auto options = std::make_shared<HistoryOptions>();
  return {.name = "history",
          .summary = "Show the payloads that a message had before it was edited",
          .text = "The oldest first; also of a message that is not dead any more.",
          .options = joined({{.names = "--payload-of",
                              .value = "VERSION",
                              .text = "print only the payload of this version",
                              .take = into(options->version)}},
                            queue_options(options->store)),
          .arguments = key_arguments(options->message),
          .examples = {{"oncebox dead history shop evt_1", "Who changed it, and why"},
                       {"oncebox dead history shop evt_1 --payload-of 1 > original.json",
                        "What the sender sent"}},
          .run = [options](Console& console) { return show_history(console, *options); }};
}

}  // namespace oncebox::app
