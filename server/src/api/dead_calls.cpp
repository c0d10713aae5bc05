#include "api/dead_calls.hpp"

#include <algorithm>
#include <functional>
#include <variant>
#include <vector>

#include "api/answer_size.hpp"
#include "api/audit_calls.hpp"
#include "oncebox/operate/dead_recovery.hpp"

namespace oncebox::server {

namespace {

/// A status or state that a filter may name is Dead, as everywhere among the dead.
template <class Call>
DeadQuery query_of(const Call& call) {
  DeadQuery query{.group = call.group, .filter = {}, .limit = call.limit};
  query.filter = std::get<MessageFilter>(call.which);
  std::erase(query.filter.statuses, Status::dead);
  std::erase(query.filter.states, State::dead);
  return query;
}

std::string revive_listed(ServedQueue& served, const wire::ReviveCall& call,
                          const AuditEntry& entry) {
  const auto& keys = std::get<std::vector<MessageKey>>(call.which);
  if (!call.dry_run) {
    return wire::write_revived(audited(
        served.store.audit(), entry,
        [&] { return revive_keys(served.operations, keys, call.options, call.pace); },
        counting(ReviveOutcome::revived)));
  }
  const std::size_t dead = count_found(served.queue, keys, [](const MessageRecord& record) {
    return record.status == Status::dead;
  });
  return wire::write_paced({dead, call.options.delay + call.pace.length(dead)}, call.dry_run);
}

}  // namespace

Presence watch(const ExchangePtr& exchange) {
  auto present = std::make_shared<std::atomic<bool>>(true);
  exchange->on_gone([present] { *present = false; });
  return present;
}

std::string revive_paced(ServedQueue& served, const wire::ReviveCall& call, const AuditEntry& entry,
                         const Presence& present) {
  QueueOperator& queue = served.operations;
  if (std::holds_alternative<std::vector<MessageKey>>(call.which)) {
    return revive_listed(served, call, entry);
  }
  const DeadQuery query = query_of(call);
  const auto revive = [&] {
    return revive_dead(queue, query, call.options, call.pace, while_there(present));
  };
  const auto count = [](const RevivalResult& result) { return result.count; };
  const RevivalResult result =
      call.dry_run ? plan_revival(queue, query, call.options, call.pace, while_there(present))
                   : audited(served.store.audit(), entry, revive, count);
  return call.pace.per_second ? wire::write_paced(result, call.dry_run)
                              : wire::write_matched(result.count, call.dry_run);
}

std::string purge_group(ServedQueue& served, const wire::PurgeCall& call, const AuditEntry& entry,
                        const Presence& present) {
  QueueOperator& queue = served.operations;
  const DeadQuery query = query_of(call);
  const auto purge = [&] { return purge_dead(queue, query, call.options, while_there(present)); };
  const std::size_t count = call.dry_run
                                ? count_dead(queue, query, while_there(present))
                                : audited(served.store.audit(), entry, purge, std::identity());
  return wire::write_matched(count, call.dry_run);
}

}  // namespace oncebox::server
