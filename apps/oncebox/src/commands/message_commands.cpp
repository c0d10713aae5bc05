#include <fmt/format.h>

#include <memory>
#include <utility>
#include <variant>

#include "commands/commands.hpp"
#include "commands/message_lookup.hpp"
#include "failure.hpp"
#include "filter_options.hpp"
#include "oncebox/wire/message_json.hpp"
#include "output.hpp"
#include "printable.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "values.hpp"

namespace oncebox::app {

MessageRecord find_message(const OpenStore& store, const MessageChoice& choice) {
  std::optional<MessageRecord> found;
  if (choice.source) {
    found = store.queue().find(MessageKey{*choice.source, choice.id});
  } else {
    auto by_id = find_by_id(store.queue_operator(), choice.id);
    if (std::holds_alternative<Ambiguous>(by_id)) {
      throw Failure(ExitCode::failed, "several sources have a message with this id: use --source");
    }
    if (auto* record = std::get_if<MessageRecord>(&by_id)) found = std::move(*record);
  }
  if (!found) {
    throw Failure(ExitCode::failed,
                  fmt::format("there is no message {}", printable(choice.id.str())));
  }
  return std::move(*found);
}

void show_message(Console& console, const OpenStore& store, const MessageChoice& choice,
                  const StoreOptions& options) {
  MessageRecord record = find_message(store, choice);
  // A lookup by id alone is a list, which leaves payloads out.
  if (!choice.source) {
    if (auto whole = store.queue().find(record.key)) record = std::move(*whole);
  }
  if (options.json) {
    console.out.line(wire::write_record(record));
  } else {
    print_message(console.out, record);
  }
}

void list_messages(Console& console, const ListOptions& options) {
  const OpenStore store(options.store);
  ListRequest request{.filter = options.filter.filter,
                      .order = options.order,
                      .payloads = options.payloads,
                      .limit = options.limit};
  if (options.after) request.after = Cursor(*options.after);
  if (!options.all) {
    const MessagePage page = store.queue_operator().list(request);
    if (options.store.json) {
      console.out.line(wire::write_page(page, options.payloads));
      return;
    }
    print_messages(console.out, page.records);
    console.out.flush();
    if (page.next) {
      console.err.line(fmt::format("more: --after {} or --all", page.next->str()));
    }
    return;
  }
  std::vector<MessageRecord> records;
  do {
    MessagePage page = store.queue_operator().list(request);
    request.after = std::move(page.next);
    if (options.store.json) {
      for (const MessageRecord& record : page.records) {
        console.out.line(wire::write_record(record, options.payloads));
      }
      continue;
    }
    std::move(page.records.begin(), page.records.end(), std::back_inserter(records));
    // Tables of a whole queue are printed in parts, so that memory stays bounded.
    if (records.size() >= kRowsOfOneTable || !request.after) {
      print_messages(console.out, std::exchange(records, {}));
    }
  } while (request.after);
}

std::vector<Option> list_options(ListOptions& options, StatusOption status) {
  return joined(
      joined(
          filter_options(options.filter, status, SystemClock::current()),
          {{.names = "-n,--limit",
            .value = "N",
            .text = "messages on a page, at most 1000",
            .take = into(options.limit),
            .initial = "50"},
           {.names = "--after",
            .value = "CURSOR",
            .text = "the page behind another, as that one tells",
            .take = into(options.after)},
           {.names = "-a,--all",
            .text = "all pages; with --json one line for each message",
            .take =
                [&options](const std::string&) {
                  options.all = true;
                  options.limit = 1'000;
                }},
           {.names = "--newest",
            .text = "the newest first",
            .take = [&options](const std::string&) { options.order = ListOrder::newest_first; }},
           {.names = "--payloads",
            .text = "with --json: payloads too",
            .take = [&options](const std::string&) { options.payloads = ListPayloads::include; }}}),
      queue_options(options.store));
}

Command get_command() {
  struct Options {
    StoreOptions store = {};
    std::optional<MessageId> id = {};
    std::optional<Source> source = {};
    bool payload = false;
  };
  const auto options = std::make_shared<Options>();
  return {
      .name = "get",
      .summary = "Show one message",
      .text =
          "Prints everything that is known about a message. On a terminal nothing in the "
          "payload can drive it; with --payload and a pipe its bytes come out as they are.",
      .options =
          joined({{.names = "-s,--source",
                   .value = "SOURCE",
                   .text = "the source of the message; needed when several sources use the id",
                   .take = into(options->source)},
                  {.names = "--payload",
                   .text = "print only the payload",
                   .take = into(options->payload)}},
                 queue_options(options->store)),
      .arguments = {{.value = "ID", .text = "the id of the message", .take = into(options->id)}},
      .examples = {{"oncebox get evt_1", "Show a message"},
                   {"oncebox get --source stripe --payload evt_1 | jq .",
                    "Its payload, for a program"}},
      .run = [options](Console& console) {
        const OpenStore store(options->store);
        const MessageChoice choice{*options->id, options->source};
        if (!options->payload) {
          show_message(console, store, choice, options->store);
          return ExitCode::ok;
        }
        const MessageKey key = find_message(store, choice).key;
        const auto record = store.queue().find(key);
        if (!record || !record->message) {
          throw Failure(ExitCode::failed, "the message was only observed: it has no payload");
        }
        const std::string& bytes = record->message->payload.bytes();
        console.out.write(console.out.is_terminal() ? printable_lines(bytes) + "\n" : bytes);
        return ExitCode::ok;
      }};
}

Command list_command() {
  const auto options = std::make_shared<ListOptions>();
  return {.name = "list",
          .summary = "List messages",
          .text =
              "Messages that match every condition, the oldest first, a page at a time. "
              "Times are in UTC.",
          .options = list_options(*options, StatusOption::offered),
          .examples = {{"oncebox list --state ready --state leased --topic 'order.*'",
                        "Which orders can be handled now, or are"},
                       {"oncebox list --waiting-for backoff", "What failed and is tried again"},
                       {"oncebox list --all --json | wc -l", "One line of JSON for each message"}},
          .run = [options](Console& console) {
            list_messages(console, *options);
            return ExitCode::ok;
          }};
}

}  // namespace oncebox::app
