#include <fmt/format.h>

#include <memory>

#include "commands/commands.hpp"
#include "failure.hpp"
#include "files.hpp"
#include "oncebox/limits.hpp"
#include "oncebox/wire/key_json.hpp"
#include "output.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct KeyOptions {
  StoreOptions store = {};
  std::optional<IdempotencyKey> key = {};
  std::optional<std::string> lease_id = {};
  std::optional<std::string> result = {};
  std::optional<Duration> retention = {};

  [[nodiscard]] std::optional<LeaseId> lease() const {
    return lease_id ? std::optional(LeaseId::parse(*lease_id)) : std::nullopt;
  }
};

Argument key_argument(KeyOptions& options) {
  return {.value = "KEY", .text = "the key, compared byte by byte", .take = into(options.key)};
}

Option lease_option(KeyOptions& options, const std::string& text) {
  return {.names = "--lease-id", .value = "ID", .text = text, .take = into(options.lease_id)};
}

Command keys_get_command() {
  const auto options = std::make_shared<KeyOptions>();
  return {.name = "get",
          .summary = "Show a key",
          .options = store_options(options->store),
          .arguments = {key_argument(*options)},
          .examples = {{"oncebox keys get shop:order:42", "Was it processed"}},
          .run = [options](Console& console) {
            const OpenStore store(options->store);
            const auto record = store.store().keys().find(*options->key);
            if (options->store.json) {
              console.out.line(wire::write_key_status(record));
            } else if (record) {
              print_key(console.out, *record, SystemClock::current());
            } else {
              throw Failure(ExitCode::failed, "the key is unknown");
            }
            return record ? ExitCode::ok : ExitCode::failed;
          }};
}

std::string_view release_text(ReleaseOutcome outcome) {
  switch (outcome) {
    case ReleaseOutcome::released:
      return "released";
    case ReleaseOutcome::lease_lost:
      return "the lease is lost: somebody else has begun the key";
    case ReleaseOutcome::processed:
      return "the key is processed already";
    case ReleaseOutcome::unknown:
      break;
  }
  return "the key is unknown";
}

Command keys_release_command() {
  const auto options = std::make_shared<KeyOptions>();
  return {.name = "release",
          .summary = "Give a key back, so that the next one can begin it",
          .options = joined({lease_option(*options, "the lease under which it was begun (needed)")},
                            store_options(options->store)),
          .arguments = {key_argument(*options)},
          .examples = {{"oncebox keys release --lease-id 0190d3c2-4b1e-7c3a-9f00-3d2a1b4c5d6e "
                        "shop:order:42",
                        "Give up what was begun"}},
          .run = [options](Console& console) {
            const auto lease = options->lease();
            if (!lease) throw Failure(ExitCode::usage, "--lease-id is missing");
            const OpenStore store(options->store);
            const ReleaseOutcome outcome = store.store().keys().release({*options->key, *lease});
            console.out.line(options->store.json ? wire::write_release(outcome)
                                                 : std::string(release_text(outcome)));
            return outcome == ReleaseOutcome::released ? ExitCode::ok : ExitCode::failed;
          }};
}

Command keys_mark_command() {
  const auto options = std::make_shared<KeyOptions>();
  return {.name = "mark",
          .summary = "Mark a key as processed",
          .text = "Without a lease this is unconditional: it overrides whoever works on the key.",
          .options = joined({lease_option(*options, "only if the key is held under this lease"),
                             {.names = "--result",
                              .value = "FILE",
                              .text = "a result to keep, from a file or - for standard input",
                              .take = into(options->result),
                              .completes = Completes::file},
                             {.names = "--retention",
                              .value = "DURATION",
                              .text = "how long the key is remembered (default: the server's "
                                      "retention.keys; 30d without a server)",
                              .take = into(options->retention)}},
                            store_options(options->store)),
          .arguments = {key_argument(*options)},
          .examples = {{"oncebox keys mark shop:order:42", "It was done by hand"}},
          .run = [options](Console& console) {
            CompleteRequest request{.key = *options->key,
                                    .lease_id = options->lease(),
                                    .retention = options->retention};
            if (options->result) {
              request.result = read_file(*options->result, limits::kMaxResultBytes);
            }
            const OpenStore store(options->store);
            const CompleteOutcome outcome = store.store().keys().complete(request);
            const bool processed = outcome == CompleteOutcome::processed;
            if (options->store.json) {
              console.out.line(wire::write_mark_processed(outcome));
            } else {
              console.out.line(processed ? "processed"
                                         : "the lease is lost: somebody else has begun the key");
            }
            return processed ? ExitCode::ok : ExitCode::failed;
          }};
}

}  // namespace

Command keys_command() {
  return {.name = "keys",
          .summary = "Look at idempotency keys, release them or mark them as processed",
          .examples = {{"oncebox keys get shop:order:42", "Was it processed"}},
          .commands = {keys_get_command(), keys_release_command(), keys_mark_command()}};
}

}  // namespace oncebox::app
