#include <fmt/format.h>

#include <memory>

#include "commands/commands.hpp"
#include "filter_options.hpp"
#include "oncebox/operate/dead_groups.hpp"
#include "oncebox/wire/dead_json.hpp"
#include "output.hpp"
#include "record_view.hpp"
#include "store_options.hpp"
#include "table.hpp"
#include "values.hpp"

namespace oncebox::app {
namespace {

struct GroupsOptions {
  StoreOptions store = {};
  FilterOptions filter = {};
  DeadGroupsRequest request = {.filter = {}, .max_groups = 100};
};

void print_groups(Output& out, const DeadGroups& found, TimePoint now) {
  Table table({{.title = "GROUP"},
               {.title = "COUNT", .align = Align::right},
               {.title = "LAST", .align = Align::right},
               {.title = "ERROR", .shrinks = Shrinks::yes}});
  for (const DeadGroup& group : found.groups) {
    table.add({{group.id.str()},
               {grouped(group.count)},
               {age(group.last_at, now)},
               {group.error, Style::red}});
  }
  table.print(out);
  if (found.others > 0) {
    out.line(fmt::format("{} more are in groups that are not listed", grouped(found.others)));
  }
  if (!found.complete) {
    out.line(fmt::format("there are more: these are the groups of the last {}",
                         grouped(found.messages)));
  }
}

}  // namespace

Command dead_groups_command() {
  const auto options = std::make_shared<GroupsOptions>();
  return {.name = "groups",
          .summary = "Group dead messages by topic and kind of error",
          .text =
              "Numbers, ids, times and quoted parts of an error do not count. The largest group "
              "comes first.",
          .options = joined(
              joined(filter_options(options->filter, StatusOption::fixed, SystemClock::current()),
                     {{.names = "-n,--limit",
                       .value = "N",
                       .text = "at most so many groups",
                       .take = into(options->request.max_groups),
                       .initial = fmt::format("{}", options->request.max_groups)},
                      {.names = "--messages",
                       .value = "N",
                       .text = "look at so many messages at most, those that were stored last",
                       .take = into(options->request.max_records),
                       .initial = fmt::format("{}", options->request.max_records)}}),
              queue_options(options->store)),
          .examples = {{"oncebox dead groups", "What goes wrong, and how often"}},
          .run = [options](Console& console) {
            const OpenStore store(options->store);
            options->request.filter = options->filter.filter;
            const DeadGroups found = group_dead(store.queue_operator(), options->request);
            if (options->store.json) {
              console.out.line(wire::write_dead_groups(found));
            } else {
              print_groups(console.out, found, SystemClock::current());
            }
            return ExitCode::ok;
          }};
}

}  // namespace oncebox::app
