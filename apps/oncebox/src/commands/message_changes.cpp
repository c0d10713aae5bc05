#include "commands/message_changes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "acting_user.hpp"
#include "commands/message_lookup.hpp"
#include "failure.hpp"
#include "oncebox/limits.hpp"
#include "record_view.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

/// The keys of the messages with these ids; with --source without asking the store first.
std::vector<MessageKey> keys_of(const OpenStore& store, const ChangeOptions& options) {
  std::vector<MessageKey> keys;
  for (const std::string& id : options.ids) {
    const auto& source = options.filter.filter.source;
    keys.push_back(source ? MessageKey{*source, id} : find_message(store, {id}).key);
  }
  return keys;
}

ExitCode change_by_keys(Console& console, const OpenStore& store, const ChangeOptions& options,
                        const MessageChange& change) {
  const std::vector<MessageKey> keys = keys_of(store, options);
  std::size_t count = 0;
  if (options.dry_run) {
    for (const auto& record : store.queue().find(keys)) {
      if (record && change.applies(*record)) ++count;
    }
    if (options.store.json) console.out.line(wire::write_matched(count, true));
  } else {
    count = with_trace(store, change, change.subject(keys), [&] {
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

ExitCode change_by_filter(Console& console, const OpenStore& store, const ChangeOptions& options,
                          const MessageChange& change) {
  const MessageFilter& filter = options.filter.filter;
  // Counted once, so that messages that come to match meanwhile do not keep this going for ever.
  std::size_t matching = change.count(store.queue_operator(), filter);
  if (options.limit > 0) matching = std::min(matching, options.limit);
  const auto change_all = [&] {
    return change.by_filter(store.queue_operator(), filter, matching);
  };
  const std::size_t count =
      options.dry_run ? matching : with_trace(store, change, change.subject(filter), change_all);
  if (options.store.json) {
    console.out.line(wire::write_matched(count, options.dry_run));
  } else {
    console.out.line(
        fmt::format("{}{} {}", options.dry_run ? "would be " : "", change.done, grouped(count)));
  }
  return ExitCode::ok;
}

bool has_other_than_source(const MessageFilter& filter) {
  return !filter.statuses.empty() || !filter.states.empty() || !filter.waiting_for.empty() ||
         filter.topic || filter.message_id || filter.partition_key || filter.error_contains ||
         filter.first_seen.from || filter.first_seen.until || filter.finished.from ||
         filter.finished.until;
}

}  // namespace

std::vector<Option> change_options(ChangeOptions& options, StatusOption status,
                                   std::string_view all_text) {
  return joined(filter_options(options.filter, status, SystemClock::current()),
                {{.names = "-a,--all", .text = std::string(all_text), .take = into(options.all)},
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

std::vector<Argument> id_arguments(ChangeOptions& options) {
  return {{.value = "ID",
           .text = "the ids of the messages; with --source all of that source",
           .take = into(options.ids),
           .presence = Presence::optional,
           .occurs = Occurs::repeatedly}};
}

std::size_t with_trace(const OpenStore& store, const MessageChange& change, std::string subject,
                       const std::function<std::size_t()>& step) {
  return audited(store.store().audit(),
                 {.actor = acting_user(),
                  .action = change.action,
                  .part = audited_part(store.kind()),
                  .subject = std::move(subject),
                  .reason = change.reason},
                 step, std::identity());
}

void require_selection(const ChangeOptions& options, bool has_other_way) {
  // With ids --source names the messages; it is no filter then.
  if (!options.ids.empty()) {
    if (options.all || options.limit > 0 || has_other_way) {
      throw Failure(ExitCode::usage, "ids and --all, --group or --limit exclude each other");
    }
    if (has_other_than_source(options.filter.filter)) {
      throw Failure(ExitCode::usage, "of the filters only --source goes with ids");
    }
    return;
  }
  if (!options.all && !options.filter.given && !has_other_way) {
    throw Failure(ExitCode::usage, "which messages? Give ids, a filter such as --topic, or --all");
  }
}

ExitCode change_messages(Console& console, const ChangeOptions& options,
                         const MessageChange& change) {
  const OpenStore store(options.store);
  return options.ids.empty() ? change_by_filter(console, store, options, change)
                             : change_by_keys(console, store, options, change);
}

}  // namespace oncebox::app
