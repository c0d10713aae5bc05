#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "json_reader.hpp"
#include "json_writer.hpp"
#include "oncebox/limits.hpp"
#include "words.hpp"

/// The two shapes of a batch: `{"items": […]}` and `{"results": […]}`.
namespace oncebox::wire {

inline constexpr std::array<std::string_view, 1> kItemsField = {"items"};
inline constexpr std::array<std::string_view, 1> kResultsField = {"results"};

/// `write(writer, item)` writes the value of one item. All of them take about so many bytes: more
/// than that would be copied as it grows.
template <class Item, class Write>
[[nodiscard]] std::string write_batch(std::string_view name, std::span<const Item> items,
                                      std::size_t bytes, Write write) {
  JsonWriter writer(bytes);
  writer.begin_object().key(name).begin_array();
  for (const Item& item : items) write(writer, item);
  return std::move(writer.end_array().end_object()).take();
}

/// The same for items that are small.
template <class Item, class Write>
[[nodiscard]] std::string write_batch(std::string_view name, std::span<const Item> items,
                                      Write write) {
  constexpr std::size_t kItemBytes = 64;
  return write_batch(name, items, items.size() * kItemBytes + kItemBytes, std::move(write));
}

/// `read(value)` answers one item.
template <class Item, class Read>
[[nodiscard]] std::vector<Item> read_array(const JsonValue& array, Read read) {
  std::vector<Item> items;
  array.for_each_item(limits::kMaxBatchItems,
                      [&](const JsonValue& value) { items.push_back(read(value)); });
  return items;
}

/// A request: `{"items": […]}` of objects with these fields. `read(fields)` answers one item.
template <class Item, class Read>
[[nodiscard]] std::vector<Item> read_items(std::string_view json,
                                           std::span<const std::string_view> known, Read read) {
  return read_object(json, kItemsField, Direction::request, [&](const ObjectReader& fields) {
    return read_array<Item>(fields.require("items"), [&](const JsonValue& value) {
      return read(ObjectReader(value, known, Direction::request));
    });
  });
}

/// An answer: `{"results": […]}`. `read(value)` answers one item.
template <class Item, class Read>
[[nodiscard]] std::vector<Item> read_results(std::string_view json, Read read) {
  return read_object(json, kResultsField, Direction::answer, [&](const ObjectReader& fields) {
    return read_array<Item>(fields.require("results"), read);
  });
}

/// Answers that are one object each.
template <class Item, class Read>
[[nodiscard]] std::vector<Item> read_result_objects(std::string_view json,
                                                    std::span<const std::string_view> known,
                                                    Read read) {
  return read_results<Item>(json, [&](const JsonValue& value) {
    return read(ObjectReader(value, known, Direction::answer));
  });
}

/// Answers that are one word each.
template <class Enum>
[[nodiscard]] std::string write_words(std::span<const Enum> outcomes) {
  return write_batch("results", outcomes,
                     [](JsonWriter& writer, Enum outcome) { writer.value(word_of(outcome)); });
}

template <class Enum>
[[nodiscard]] std::vector<Enum> read_words(std::string_view json) {
  return read_results<Enum>(json, [](const JsonValue& value) { return read_word<Enum>(value); });
}

}  // namespace oncebox::wire
