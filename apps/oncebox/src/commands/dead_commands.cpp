#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "acting_user.hpp"
#include "commands/commands.hpp"
#include "commands/dead_edit_commands.hpp"
#include "commands/message_lookup.hpp"
#include "failure.hpp"
#include "json_output.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/operate/dead_recovery.hpp"
#include "oncebox/wire/audit_json.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

/// How many messages one call to the store changes.
constexpr std::size_t kStep = 1'000;

struct DeadOptions {
  StoreOptions store = {};
  std::vector<std::string> ids = {};
  FilterOptions filter = {};
  std::size_t limit = 0;  ///< of a filter; 0: no limit
  std::optional<DeadGroupId> group = {};
  ReviveOptions revive = {};
  PurgeOptions purge = {};
  RevivalPace pace = {};
  bool all = false;
  bool dry_run = false;
};

std::vector<Option> selection_options(DeadOptions& options) {
  return joined(
      filter_options(options.filter, StatusOption::fixed, SystemClock::current()),
      {{.names = "-a,--all", .text = "all dead messages", .take = into(options.all)},
       {.names = "-g,--group",
        .value = "GROUP",
        .text = "a group of dead messages, as \"oncebox dead groups\" lists it",
        .take = [&options](const std::string& text) { options.group = DeadGroupId::parse(text); }},
       {.names = "-n,--limit",
        .value = "N",
        .text = "at most so many of those that match, the oldest first",
        .take =
            [&options](const std::string& text) {
              options.limit = parse_count(text);
              // It would mean all of them.
              require_in_range("the limit", options.limit, 1, std::size_t(-1));
            }},
       {.names = "--dry-run",
        .text = "only tell how many it would be",
        .take = into(options.dry_run)}});
}

/// What one kind of change does with keys and with a filter.
struct DeadChange {
  std::string_view done;  ///< "revived"
  AuditAction action;
  std::string reason;
  /// Answers how many of the keys it changed, and prints the outcomes as JSON when asked to.
  std::function<std::size_t(QueueOperator&, std::span<const MessageKey>, Output* json)> by_keys;
  std::function<std::size_t(QueueOperator&, const MessageFilter&, std::size_t limit)> by_filter;
  /// By group, or at a rate; a dry run only tells what it would be.
  std::function<RevivalResult(QueueOperator&, const DeadQuery&)> by_query;
};

/// The keys of the messages with these ids; with --source without asking the store first.
std::vector<MessageKey> keys_of(const OpenStore& store, const DeadOptions& options) {
  std::vector<MessageKey> keys;
  for (const std::string& id : options.ids) {
    const auto& source = options.filter.filter.source;
    keys.push_back(source ? MessageKey{*source, id} : find_message(store, {id}).key);
  }
  return keys;
}

/// Runs `step`, which answers how many it changed, with a trace. On a server that leaves one
/// itself.
template <class Step>
std::size_t with_trace(const OpenStore& store, const DeadChange& change,
                       const wire::DeadSelection& which, const std::optional<DeadGroupId>& group,
                       Step step) {
  return audited(store.store().audit(),
                 {.actor = acting_user(),
                  .action = change.action,
                  .part = audited_part(store.kind()),
                  .subject = wire::audit_subject(which, group),
                  .reason = change.reason},
                 step, std::identity());
}

ExitCode change_by_keys(Console& console, const OpenStore& store, const DeadOptions& options,
                        const DeadChange& change) {
  const std::vector<MessageKey> keys = keys_of(store, options);
  std::size_t count = 0;
  if (options.dry_run) {
    for (const auto& record : store.queue().find(keys)) {
      if (record && record->status == Status::dead) ++count;
    }
    if (options.store.json) console.out.line(wire::write_matched(count, true));
  } else {
    count = with_trace(store, change, keys, {}, [&] {
      return change.by_keys(store.queue_operator(), keys,
                            options.store.json ? &console.out : nullptr);
    });
  }
  if (!options.store.json) {
    console.out.line(fmt::format("{}{} {} of {}", options.dry_run ? "would be " : "", change.done,
                                 grouped(count), grouped(keys.size())));
  }
  return count == keys.size() ? ExitCode::ok : ExitCode::failed;
}

ExitCode change_by_filter(Console& console, const OpenStore& store, const DeadOptions& options,
                          const DeadChange& change) {
  MessageFilter filter = options.filter.filter;
  filter.statuses = {Status::dead};
  // Counted once, so that messages that die again meanwhile do not keep this going for ever.
  std::size_t matching = store.queue_operator().count(filter);
  if (options.limit > 0) matching = std::min(matching, options.limit);
  const auto change_all = [&] {
    std::size_t changed = 0;
    while (changed < matching) {
      const std::size_t step = std::min(kStep, matching - changed);
      const std::size_t count = change.by_filter(store.queue_operator(), filter, step);
      changed += count;
      if (count < step) break;
    }
    return changed;
  };
  const std::size_t count =
      options.dry_run ? matching : with_trace(store, change, filter, {}, change_all);
  if (options.store.json) {
    console.out.line(wire::write_matched(count, options.dry_run));
  } else {
    console.out.line(
        fmt::format("{}{} {}", options.dry_run ? "would be " : "", change.done, grouped(count)));
  }
  return ExitCode::ok;
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
    with_trace(store, change, query.filter, query.group, run);
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

bool has_other_than_source(const MessageFilter& filter) {
  return filter.topic || filter.message_id || filter.partition_key || filter.error_contains ||
         filter.first_seen.from || filter.first_seen.until || filter.finished.from ||
         filter.finished.until;
}

ExitCode change_dead(Console& console, const DeadOptions& options, const DeadChange& change) {
  const bool has_filter = options.all || options.filter.given || options.group;
  // With ids --source names the messages; it is no filter then.
  if (!options.ids.empty()) {
    if (options.all || options.limit > 0 || options.group) {
      throw Failure(ExitCode::usage, "ids and --all, --group or --limit exclude each other");
    }
    if (has_other_than_source(options.filter.filter)) {
      throw Failure(ExitCode::usage, "of the filters only --source goes with ids");
    }
    return change_by_keys(console, OpenStore(options.store), options, change);
  }
  if (!has_filter) {
    throw Failure(ExitCode::usage, "which messages? Give ids, a filter such as --topic, or --all");
  }
  if (options.all && options.group) {
    throw Failure(ExitCode::usage, "--all and --group exclude each other");
  }
  if (options.group || options.pace.per_second) {
    return change_by_query(console, OpenStore(options.store), options, change);
  }
  return change_by_filter(console, OpenStore(options.store), options, change);
}

std::vector<Argument> id_arguments(DeadOptions& options) {
  return {{.value = "ID",
           .text = "the ids of the messages; with --source all of that source",
           .take = into(options.ids),
           .presence = Presence::optional,
           .occurs = Occurs::repeatedly}};
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
            return change_dead(
                console, *options,
                {.done = "revived",
                 .action = AuditAction::revive,
                 .reason = options->revive.reason,
                 .by_keys =
                     [&](QueueOperator& queue, std::span<const MessageKey> keys, Output* json) {
                       const auto outcomes =
                           revive_keys(queue, keys, options->revive, options->pace);
                       if (json != nullptr) json->line(wire::write_revived(outcomes));
                       return static_cast<std::size_t>(
                           std::count(outcomes.begin(), outcomes.end(), ReviveOutcome::revived));
                     },
                 .by_filter =
                     [&](QueueOperator& queue, const MessageFilter& filter, std::size_t limit) {
                       return queue.revive_matching(filter, options->revive, limit);
                     },
                 .by_query =
                     [&](QueueOperator& queue, const DeadQuery& query) {
                       return options->dry_run
                                  ? plan_revival(queue, query, options->revive, options->pace)
                                  : revive_dead(queue, query, options->revive, options->pace);
                     }});
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
            return change_dead(
                console, *options,
                {.done = "purged",
                 .action = AuditAction::purge,
                 .reason = options->purge.reason,
                 .by_keys =
                     [&](QueueOperator& queue, std::span<const MessageKey> keys, Output* json) {
                       const auto outcomes = queue.purge(keys, options->purge);
                       if (json != nullptr) json->line(wire::write_purged(outcomes));
                       return static_cast<std::size_t>(
                           std::count(outcomes.begin(), outcomes.end(), PurgeOutcome::purged));
                     },
                 .by_filter =
                     [&](QueueOperator& queue, const MessageFilter& filter, std::size_t limit) {
                       return queue.purge_matching(filter, limit, options->purge);
                     },
                 .by_query =
                     [&](QueueOperator& queue, const DeadQuery& query) {
                       return RevivalResult{
                           .count = options->dry_run ? count_dead(queue, query)
                                                     : purge_dead(queue, query, options->purge)};
                     }});
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
