#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>

#include "acting_user.hpp"
#include "commands/commands.hpp"
#include "oncebox/audit_trail.hpp"
#include "oncebox/wire/operator_json.hpp"
#include "output.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct CleanupOptions {
  StoreOptions store = {};
  wire::CleanupCall call = {};
};

/// Batch by batch, so that other users of the store never wait long.
wire::CleanedUp remove_all(const OpenStore& store, const wire::CleanupCall& call) {
  wire::CleanedUp removed;
  CleanupResult batch;
  do {
    batch = store.queue_operator().cleanup(call.queue);
    removed.queue.done_removed += batch.done_removed;
    removed.queue.dead_removed += batch.dead_removed;
  } while (batch.total() == call.queue.limit);
  std::size_t keys = 0;
  do {
    keys = store.store().keys().cleanup(call.queue.limit);
    removed.keys_removed += keys;
  } while (keys == call.queue.limit);
  return removed;
}

ExitCode clean_up(Console& console, const CleanupOptions& options) {
  const OpenStore store(options.store);
  wire::CleanupCall what = options.call;
  what.queue.reason.clear();  // stands beside it
  const wire::CleanedUp removed = audited(
      store.store().audit(),
      {.actor = acting_user(),
       .action = AuditAction::cleanup,
       .part = audited_part(store.kind()),
       .subject = wire::write_cleanup(what),
       .reason = options.call.queue.reason},
      [&] { return remove_all(store, options.call); },
      [](const wire::CleanedUp& all) { return all.queue.total() + all.keys_removed; });
  if (options.store.json) {
    console.out.line(wire::write_cleaned_up(removed));
  } else {
    console.out.line(
        fmt::format("removed {} done, {} dead, {} keys", grouped(removed.queue.done_removed),
                    grouped(removed.queue.dead_removed), grouped(removed.keys_removed)));
  }
  return ExitCode::ok;
}

}  // namespace

Command cleanup_command() {
  const auto options = std::make_shared<CleanupOptions>();
  CleanupRequest& request = options->call.queue;
  return {.name = "cleanup",
          .summary = "Remove what has been done, or dead, for long enough",
          .text =
              "A server does this by itself ([retention] in its configuration); this is for stores "
              "that none serves, and for removing more, now. Idempotency keys that are past their "
              "retention go, too. What is done and removed is forgotten: "
              "when it is sent again, it is handled again. Unfinished messages "
              "are never touched.",
          .options = joined({{.names = "--done-after",
                              .value = "DURATION",
                              .text = "remove what has been done for so long",
                              .take = into(request.done_retention),
                              .initial = format_duration(request.done_retention)},
                             {.names = "--dead-after",
                              .value = "DURATION",
                              .text = "remove what has been dead for so long, too",
                              .take = into(request.dead_retention),
                              .initial = "kept"},
                             {.names = "--reason",
                              .value = "TEXT",
                              .text = "kept in the audit trail",
                              .take = into(request.reason)}},
                            queue_options(options->store)),
          .examples = {{"oncebox cleanup --url sqlite:oncebox.db --done-after 7d",
                        "A store without a server, once a day"}},
          .run = [options](Console& console) { return clean_up(console, *options); }};
}

}  // namespace oncebox::app
