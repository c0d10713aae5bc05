#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "commands/commands.hpp"
#include "commands/dead_edit_commands.hpp"
#include "commands/message_changes.hpp"
#include "commands/message_lookup.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "oncebox/operate/dead_recovery.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct DeadOptions : ChangeOptions {
  std::optional<DeadGroupId> group = {};
  ReviveOptions revive = {};
  PurgeOptions purge = {};
  RevivalPace pace = {};
};

std::vector<Option> selection_options(DeadOptions& options) {
  return joined(change_options(options, StatusOption::fixed, "all dead messages"),
                {{.names = "-g,--group",
                  .value = "GROUP",
                  .text = "a group of dead messages, as \"oncebox dead groups\" lists it",
                  .take = [&options](const std::string& text) {
                    options.group = DeadGroupId::parse(text);
                  }}});
}

/// Calls `step`, which answers how many it changed, until it has changed so many together.
template <class Step>
std::size_t in_steps(std::size_t limit, Step step) {
  constexpr std::size_t kStep = 1'000;
  std::size_t changed = 0;
  while (changed < limit) {
    const std::size_t wanted = std::min(kStep, limit - changed);
    const std::size_t count = step(wanted);
    changed += count;
    if (count < wanted) break;
  }
  return changed;
}

/// What one kind of change does with dead messages.
struct DeadChange : MessageChange {
  /// By group, or at a rate; a dry run only tells what it would be.
  std::function<RevivalResult(QueueOperator&, const DeadQuery&)> by_query;
};

DeadChange dead_change(std::string_view done, AuditAction action, const std::string& reason) {
  DeadChange change;
  change.done = done;
  change.action = action;
  change.reason = reason;
  change.subject = [](const wire::MessageSelection& which) { return wire::audit_subject(which); };
  change.applies = [](const MessageRecord& record) { return record.status == Status::dead; };
  change.count = [](QueueOperator& queue, const MessageFilter& filter) {
    return queue.count(only_dead(filter));
  };
  return change;
}

ExitCode change_by_query(Console& console, const OpenStore& store, const DeadOptions& options,
                         const DeadChange& change) {
  DeadQuery query{.group = options.group, .filter = {}, .limit = DeadQuery::kMaxLimit};
  query.filter = options.filter.filter;
  if (options.limit > 0) query.limit = options.limit;
  RevivalResult result;
  const auto run = [&] {
    result = change.by_query(store.queue_operator(), query);
    return result.count;
  };
  if (options.dry_run) {
    run();
  } else {
    with_trace(store, change, wire::audit_subject(query.filter, query.group), run);
  }
  const bool paced = options.pace.per_second.has_value();
  if (options.store.json) {
    console.out.line(paced ? wire::write_paced(result, options.dry_run)
                           : wire::write_matched(result.count, options.dry_run));
    return ExitCode::ok;
  }
  std::string text = fmt::format("{}{} {}", options.dry_run ? "would be " : "", change.done,
                                 grouped(result.count));
  if (paced) text += fmt::format("; the last is due in {}", format_duration(result.lasts));
  console.out.line(text);
  return ExitCode::ok;
}

ExitCode change_dead(Console& console, const DeadOptions& options, const DeadChange& change) {
  require_selection(options, options.group.has_value());
  if (options.all && options.group) {
    throw Failure(ExitCode::usage, "--all and --group exclude each other");
  }
  if (options.ids.empty() && (options.group || options.pace.per_second)) {
    return change_by_query(console, OpenStore(options.store), options, change);
  }
  return change_messages(console, options, change);
}

DeadChange revival(const DeadOptions& options) {
  DeadChange change = dead_change("revived", AuditAction::revive, options.revive.reason);
  change.by_keys = [&](QueueOperator& queue, std::span<const MessageKey> keys, Output* json) {
    const auto outcomes = revive_keys(queue, keys, options.revive, options.pace);
    if (json != nullptr) json->line(wire::write_revived(outcomes));
    return static_cast<std::size_t>(std::ranges::count(outcomes, ReviveOutcome::revived));
  };
  change.by_filter = [&](QueueOperator& queue, const MessageFilter& filter, std::size_t limit) {
    return in_steps(limit, [&](std::size_t step) {
      return queue.revive_matching(filter, options.revive, step);
    });
  };
  change.by_query = [&](QueueOperator& queue, const DeadQuery& query) {
    return options.dry_run ? plan_revival(queue, query, options.revive, options.pace)
                           : revive_dead(queue, query, options.revive, options.pace);
  };
  return change;
}

DeadChange removal(const DeadOptions& options) {
  DeadChange change = dead_change("purged", AuditAction::purge, options.purge.reason);
  change.by_keys = [&](QueueOperator& queue, std::span<const MessageKey> keys, Output* json) {
    const auto outcomes = queue.purge(keys, options.purge);
    if (json != nullptr) json->line(wire::write_purged(outcomes));
    return static_cast<std::size_t>(std::ranges::count(outcomes, PurgeOutcome::purged));
  };
  change.by_filter = [&](QueueOperator& queue, const MessageFilter& filter, std::size_t limit) {
    return in_steps(
        limit, [&](std::size_t step) { return queue.purge_matching(filter, step, options.purge); });
  };
  change.by_query = [&](QueueOperator& queue, const DeadQuery& query) {
    return RevivalResult{.count = options.dry_run ? count_dead(queue, query)
                                                  : purge_dead(queue, query, options.purge)};
  };
  return change;
}

Command dead_list_command() {
  const auto options = std::make_shared<ListOptions>();
  options->filter.filter.statuses = {Status::dead};
  return {.name = "list",
          .summary = "List dead messages",
          .options = list_options(*options, StatusOption::fixed),
          .examples = {{"oncebox dead list --finished-since 1h", "What died in the last hour"}},
          .run = [options](Console& console) {
            list_messages(console, *options);
            return ExitCode::ok;
          }};
}

Command dead_show_command() {
  struct Options {
    StoreOptions store = {};
    std::optional<MessageId> id = {};
    std::optional<Source> source = {};
  };
  const auto options = std::make_shared<Options>();
  return {
      .name = "show",
      .summary = "Show one dead message",
      .options = joined({{.names = "-s,--source",
                          .value = "SOURCE",
                          .text = "the source of the message",
                          .take = into(options->source)}},
                        queue_options(options->store)),
      .arguments = {{.value = "ID", .text = "the id of the message", .take = into(options->id)}},
      .examples = {{"oncebox dead show evt_1", "Why did it die"}},
      .run = [options](Console& console) {
        const OpenStore store(options->store);
        const MessageChoice choice{*options->id, options->source};
        const MessageRecord record = find_message(store, choice);
        if (record.status != Status::dead) {
          throw Failure(ExitCode::failed,
                        fmt::format("the message is not dead but {}", to_string(record.status)));
        }
        show_message(console, store, choice, options->store);
        return ExitCode::ok;
      }};
}

Command dead_revive_command() {
  const auto options = std::make_shared<DeadOptions>();
  return {.name = "revive",
          .summary = "Bring dead messages back, to be tried again",
          .text =
              "Attempts begin at 0 again; the last error is kept. Asks nothing, but wants ids, a "
              "filter or --all.",
          .options = joined(joined(selection_options(*options),
                                   {{.names = "--delay",
                                     .value = "DURATION",
                                     .text = "not before this time has passed",
                                     .take = into(options->revive.delay)},
                                    {.names = "--rate",
                                     .value = "N",
                                     .text = "so many a second become due, instead of all at once",
                                     .take = into(options->pace.per_second)},
                                    {.names = "--reason",
                                     .value = "TEXT",
                                     .text = "kept with the messages and in the audit trail",
                                     .take = into(options->revive.reason)}}),
                            queue_options(options->store)),
          .arguments = id_arguments(*options),
          .examples = {{"oncebox dead revive evt_1 evt_2", "Two messages"},
                       {"oncebox dead revive --topic 'mail.*' --error timeout --dry-run",
                        "How many died of a timeout"},
                       {"oncebox dead revive --group mail:0f3a5c7e9b1d2468 --rate 10",
                        "A group, ten messages a second"}},
          .run = [options](Console& console) {
            return change_dead(console, *options, revival(*options));
          }};
}

Command dead_purge_command() {
  const auto options = std::make_shared<DeadOptions>();
  return {.name = "purge",
          .summary = "Remove dead messages for good",
          .text =
              "Their keys are forgotten too: a sender that repeats such a message is heard "
              "again. Asks nothing, but wants ids, a filter or --all.",
          .options =
              joined(joined(selection_options(*options), {{.names = "--reason",
                                                           .value = "TEXT",
                                                           .text = "kept in the audit trail",
                                                           .take = into(options->purge.reason)}}),
                     queue_options(options->store)),
          .arguments = id_arguments(*options),
          .examples = {{"oncebox dead purge --finished-before 30d", "What died a month ago"}},
          .run = [options](Console& console) {
            return change_dead(console, *options, removal(*options));
          }};
}

}  // namespace

Command dead_command() {
  return {.name = "dead",
          .summary = "Look at dead messages, bring them back or remove them",
          .examples = {{"oncebox dead list", "What is dead"}},
          .commands = {dead_list_command(), dead_groups_command(), dead_show_command(),
                       dead_revive_command(), dead_edit_command(), dead_history_command(),
                       dead_purge_command()}};
}

}  // namespace oncebox::app
