#include <memory>
#include <vector>

#include "commands/commands.hpp"
#include "oncebox/wire/worker_json.hpp"
#include "output.hpp"
#include "record_view.hpp"
#include "store_options.hpp"

namespace oncebox::app {

Command workers_command() {
  const auto options = std::make_shared<StoreOptions>();
  return {.name = "workers",
          .summary = "Show who claims messages, and how many each of them holds",
          .text =
              "A worker is listed while it holds messages, and for an hour after its last claim. "
              "LAST SEEN is exact to ten seconds for a worker that is given messages, and to five "
              "minutes for an idle one.",
          .options = queue_options(*options),
          .examples = {{"oncebox workers", "Who works on the inbox"},
                       {"oncebox workers --queue outbox", "Who publishes"}},
          .run = [options](Console& console) {
            const std::vector<WorkerRecord> workers =
                OpenStore(*options).queue_operator().workers();
            if (options->json) {
              console.out.line(wire::write_workers(workers));
            } else {
              print_workers(console.out, workers, SystemClock::current());
            }
            return ExitCode::ok;
          }};
}

}  // namespace oncebox::app
