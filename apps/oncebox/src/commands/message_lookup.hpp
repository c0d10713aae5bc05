#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "command.hpp"
#include "filter_options.hpp"
#include "oncebox/queue_operator.hpp"
#include "store_options.hpp"

/// What the commands about messages and those about dead messages share.
namespace oncebox::app {

/// A message by its id; the source may be left out while only one has the id.
struct MessageChoice {
  MessageId id;
  std::optional<Source> source = {};
};

/// Throws a `Failure` when there is none, or more than one. The payload may be missing.
[[nodiscard]] MessageRecord find_message(const OpenStore& store, const MessageChoice& choice);

/// Prints a whole message.
void show_message(Console& console, const OpenStore& store, const MessageChoice& choice,
                  const StoreOptions& options);

inline constexpr std::size_t kRowsOfOneTable = 10'000;

struct ListOptions {
  StoreOptions store = {};
  FilterOptions filter = {};
  ListOrder order = ListOrder::oldest_first;
  ListPayloads payloads = ListPayloads::omit;
  std::size_t limit = 50;
  std::optional<std::string> after = {};
  bool all = false;
};

[[nodiscard]] std::vector<Option> list_options(ListOptions& options, StatusOption status);
void list_messages(Console& console, const ListOptions& options);

}  // namespace oncebox::app
