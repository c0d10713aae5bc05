#include "commands/commands.hpp"

namespace oncebox::app {

Command oncebox_command() {
  return {
      .name = "oncebox",
      .summary = "a deduplicating inbox and work queue: server and tool",
      .text =
          "Oncebox takes in messages, recognises what was seen before, and hands each message "
          "to one worker at a time until it is done or dead.\n\n"
          "Commands work on a server (--url http://...) and directly on a store "
          "(--url sqlite:oncebox.db, --url postgresql://...) alike. They print tables for "
          "people and, with --json, one JSON document or JSON lines for programs. Colours are "
          "used only on a terminal, and not when NO_COLOR is set.\n\n"
          "Durations are written as 250ms, 30s, 5m, 12h or 7d; times in RFC 3339, or as a "
          "duration from now.",
      .examples = {{"oncebox serve", "Start a server on a SQLite file in this folder"},
                   {"oncebox send --topic order.created --data '{\"order\": 42}'",
                    "Give it a message"},
                   {"oncebox work --topic 'order.*' -- ./handle-order",
                    "Handle its messages with a program"}},
      .commands = {serve_command(),   validate_command(), send_command(),     work_command(),
                   get_command(),     list_command(),     messages_command(), dead_command(),
                   audit_command(),   stats_command(),    topics_command(),   endpoints_command(),
                   workers_command(), health_command(),   keys_command(),     cleanup_command(),
#ifdef ONCEBOX_WITH_HTTP
                   stores_command(),
#endif
                   migrate_command(), bench_command(),    version_command(),  completion_command(),
                   man_command()},
  };
}

}  // namespace oncebox::app
