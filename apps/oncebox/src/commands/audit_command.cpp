#include <fmt/format.h>

#include <memory>
#include <utility>

#include "commands/commands.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "output.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

constexpr Choice<AuditAction> kActions[] = {
    {"revive", AuditAction::revive},
    {"edit", AuditAction::revive_edited},
    {"purge", AuditAction::purge},
    {"cleanup", AuditAction::cleanup},
    {"pause", AuditAction::pause},
    {"resume", AuditAction::resume},
    {"set-policy", AuditAction::set_policy},
    {"cancel", AuditAction::cancel},
    {"run-now", AuditAction::run_now},
    {"reschedule", AuditAction::reschedule},
    {"delete", AuditAction::delete_messages},
    {"set-endpoint", AuditAction::set_endpoint},
    {"remove-endpoint", AuditAction::remove_endpoint},
    {"disable-endpoint", AuditAction::disable_endpoint},
    {"enable-endpoint", AuditAction::enable_endpoint},
    {"resend", AuditAction::resend},
};

struct AuditOptions {
  StoreOptions store = {};
  AuditListRequest request{.limit = 50};
  bool all = false;
};

std::string word_of(AuditAction action) {
  for (const Choice<AuditAction>& choice : kActions) {
    if (choice.value == action) return std::string(choice.word);
  }
  return "unknown";
}

Cell result_of(const AuditRecord& record) {
  if (!record.result) return {"?", Style::yellow};
  switch (record.result->status) {
    case AuditStatus::succeeded:
      return {"ok", Style::green};
    case AuditStatus::failed:
      return {"failed", Style::red};
    case AuditStatus::unknown:
      break;
  }
  return {"unknown", Style::yellow};
}

void print_trail(Output& out, std::span<const AuditRecord> records) {
  Table table({{"TIME"},
               {"ACTOR"},
               {"ACTION"},
               {"PART"},
               {"RESULT"},
               {"CHANGED", Align::right},
               {"REASON", Align::left, Shrinks::yes},
               {"SUBJECT", Align::left, Shrinks::yes}});
  for (const AuditRecord& record : records) {
    const AuditEntry& entry = record.entry;
    table.add({{short_time(record.begun_at), Style::dim},
               {entry.actor},
               {word_of(entry.action)},
               {std::string(to_string(entry.part))},
               result_of(record),
               {record.result ? grouped(record.result->changed) : ""},
               {entry.reason},
               {entry.subject, Style::dim}});
  }
  table.print(out);
}

ExitCode list_trail(Console& console, const AuditOptions& options) {
  const OpenStore store(options.store);
  AuditListRequest request = options.request;
  do {
    const AuditPage page = store.store().audit().list(request);
    if (options.store.json && !options.all) {
      console.out.line(wire::write_audit_page(page));
      return ExitCode::ok;
    }
    if (options.store.json) {
      for (const AuditRecord& record : page.records) {
        console.out.line(wire::write_audit_record(record));
      }
    } else {
      print_trail(console.out, page.records);
    }
    request.after = page.next;
  } while (options.all && request.after);
  console.out.flush();
  if (request.after) {
    console.err.line(fmt::format("more: --after {} or --all", request.after->str()));
  }
  return ExitCode::ok;
}

TakeValue time_into(std::optional<TimePoint>& target) {
  return [&target](const std::string& text) { target = parse_past(text, SystemClock::current()); };
}

std::vector<Option> audit_list_options(AuditOptions& options) {
  AuditListRequest& request = options.request;
  return joined({{.names = "--actor",
                  .value = "NAME",
                  .text = "only by this token or user",
                  .take = into(request.filter.actor)},
                 {.names = "--action",
                  .value = "ACTION",
                  .text = "only this action",
                  .take =
                      [&request](const std::string& text) {
                        AuditAction action = AuditAction::revive;
                        into(action, kActions)(text);
                        request.filter.actions.push_back(action);
                      },
                  .occurs = Occurs::repeatedly,
                  .choices = words_of(kActions)},
                 {.names = "--since",
                  .value = "TIME",
                  .text = "only at or after this time; 2h means two hours ago",
                  .take = time_into(request.filter.begun.from)},
                 {.names = "--before",
                  .value = "TIME",
                  .text = "only before this time",
                  .take = time_into(request.filter.begun.until)},
                 {.names = "-n,--limit",
                  .value = "N",
                  .text = "entries on a page, at most 1000",
                  .take = into(request.limit),
                  .initial = "50"},
                 {.names = "--after",
                  .value = "CURSOR",
                  .text = "the page behind another, as that one tells",
                  .take = [&request](const std::string& text) { request.after = Cursor(text); }},
                 {.names = "-a,--all",
                  .text = "all pages; with --json one line for each entry",
                  .take =
                      [&options](const std::string&) {
                        options.all = true;
                        options.request.limit = 1'000;
                      }}},
                store_options(options.store));
}

Command audit_list_command() {
  const auto options = std::make_shared<AuditOptions>();
  return {.name = "list",
          .summary = "List who changed what, the newest first",
          .text =
              "Every revival, edit, purge, cleanup, pause, resumption and change of a topic's "
              "policy, with the name of the "
              "token, or of the user where this tool worked on a store directly. A result of ? "
              "means that it is under way, or that nobody lived to tell. Times are in UTC.",
          .options = audit_list_options(*options),
          .examples = {{"oncebox audit list --since 1d", "Today"},
                       {"oncebox audit list --action purge --action edit --json",
                        "What cannot be undone, for a program"}},
          .run = [options](Console& console) { return list_trail(console, *options); }};
}

}  // namespace

Command audit_command() {
  return {.name = "audit",
          .summary = "See who revived, edited, purged or paused what",
          .examples = {{"oncebox audit list", "The last changes"}},
          .commands = {audit_list_command()}};
}

}  // namespace oncebox::app
