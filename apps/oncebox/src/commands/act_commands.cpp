#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "commands/commands.hpp"
#include "commands/message_changes.hpp"
#include "failure.hpp"
#include "oncebox/operate/message_actions.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "record_view.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct ActionOptions : ChangeOptions {
  ActOptions act = {};
  std::optional<TimePoint> due_at = {};  ///< of a reschedule
};

std::vector<Option> action_options(ActionOptions& options, std::string_view reason_text) {
  return joined(
      joined(change_options(options, StatusOption::offered, "all messages to which it applies"),
             {{.names = "--reason",
               .value = "TEXT",
               .text = std::string(reason_text),
               .take = into(options.act.reason)}}),
      queue_options(options.store));
}

/// Says why messages were not rescheduled that could be by their state.
void tell_of_expiries(Console& console, std::span<const ActOutcome> outcomes) {
  const auto expired = std::ranges::count(outcomes, ActOutcome::expires_first);
  if (expired == 0) return;
  console.err.line(
      fmt::format("not rescheduled because they expire before that time: {}; give an earlier --due",
                  grouped(static_cast<std::size_t>(expired))));
}

MessageChange change_of(Console& console, const OperatorAction& action, const ActOptions& options,
                        std::string_view done) {
  return {
      .done = done,
      .action = audit_action(action),
      .reason = options.reason,
      .subject =
          [action](const wire::MessageSelection& which) {
            return wire::audit_subject(wire::ActCall{.which = which, .action = action});
          },
      .applies = [action](const MessageRecord& record) { return applies_to(action, record); },
      .count = [action](
                   QueueOperator& queue,
                   const MessageFilter& filter) { return queue.count_actable(filter, action); },
      .by_keys =
          [&console, action, options](QueueOperator& queue, std::span<const MessageKey> keys,
                                      Output* json) {
            const std::vector<ActOutcome> outcomes = queue.act(keys, action, options);
            if (json != nullptr) json->line(wire::write_acted(outcomes));
            tell_of_expiries(console, outcomes);
            return static_cast<std::size_t>(std::ranges::count(outcomes, ActOutcome::changed));
          },
      .by_filter =
          [action, options](QueueOperator& queue, const MessageFilter& filter, std::size_t limit) {
            return act_on_all(queue, filter, action, limit, options);
          }};
}

ExitCode run_action(Console& console, const ActionOptions& options, const OperatorAction& action,
                    std::string_view done) {
  require_selection(options);
  return change_messages(console, options, change_of(console, action, options.act, done));
}

Command cancel_command() {
  const auto options = std::make_shared<ActionOptions>();
  return {.name = "cancel",
          .summary = "End messages that are not done: they go dead",
          .text =
              "Messages that are waiting, ready or leased go dead with the error \"cancelled\" and "
              "the reason. A worker that has one finishes its work, but cannot settle it any more. "
              "Revive a message to take this back. Asks nothing, but wants ids, a filter or --all.",
          .options = action_options(*options, "kept as the messages' error and in the audit trail"),
          .arguments = id_arguments(*options),
          .examples = {{"oncebox messages cancel evt_1 --reason 'sent by mistake'", "One message"},
                       {"oncebox messages cancel --topic 'mail.*' --dry-run",
                        "How many would be cancelled"}},
          .run = [options](Console& console) {
            return run_action(console, *options, Cancel{}, "cancelled");
          }};
}

Command run_now_command() {
  const auto options = std::make_shared<ActionOptions>();
  return {.name = "run-now",
          .summary = "Let messages be claimed now that wait for a time",
          .text =
              "Messages that wait for their due time or for the end of a backoff become ready. One "
              "that stands behind another of its partition stays there. Asks nothing, but wants "
              "ids, a filter or --all.",
          .options = action_options(*options, "kept in the audit trail"),
          .arguments = id_arguments(*options),
          .examples = {{"oncebox messages run-now --waiting-for backoff --topic mail",
                        "Try all mails again that failed"}},
          .run = [options](Console& console) {
            return run_action(console, *options, RunNow{}, "made ready");
          }};
}

Command reschedule_command() {
  const auto options = std::make_shared<ActionOptions>();
  const TimePoint now = SystemClock::current();
  return {
      .name = "reschedule",
      .summary = "Give messages another due time",
      .text =
          "Messages that are waiting or ready are not handed out before that time, and wait "
          "for nothing else: a backoff ends. One that expires before that time, or at it, is left "
          "as it is. Asks nothing, but wants ids, a filter or --all.",
      .options = joined(
          {{.names = "--due",
            .value = "TIME",
            .text = "the new due time; 5m means in five minutes",
            .take = [options,
                     now](const std::string& text) { options->due_at = parse_future(text, now); }}},
          action_options(*options, "kept in the audit trail")),
      .arguments = id_arguments(*options),
      .examples = {{"oncebox messages reschedule --topic report --due 8h", "Not before tonight"}},
      .run = [options](Console& console) {
        if (!options->due_at) throw Failure(ExitCode::usage, "--due is missing");
        return run_action(console, *options, Reschedule{*options->due_at}, "rescheduled");
      }};
}

Command delete_command() {
  const auto options = std::make_shared<ActionOptions>();
  return {.name = "delete",
          .summary = "Remove messages for good",
          .text =
              "Removes messages in any state but those that a worker has. Their keys are forgotten "
              "too: a sender that repeats such a message is heard again. Asks nothing, but wants "
              "ids, a filter or --all.",
          .options = action_options(*options, "kept in the audit trail"),
          .arguments = id_arguments(*options),
          .examples = {{"oncebox messages delete --state ready --topic test", "What a test left"}},
          .run = [options](Console& console) {
            return run_action(console, *options, Delete{}, "deleted");
          }};
}

}  // namespace

Command messages_command() {
  return {
      .name = "messages",
      .summary = "Cancel, run now, reschedule or delete messages",
      .examples = {{"oncebox messages cancel evt_1", "End a message"}},
      .commands = {cancel_command(), run_now_command(), reschedule_command(), delete_command()}};
}

}  // namespace oncebox::app
