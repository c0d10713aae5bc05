#include <fmt/format.h>
#include <toml++/toml.h>

#include <optional>
#include <string>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/internal/location_list.hpp"
#include "store_list.hpp"

namespace oncebox {
namespace {

[[noreturn]] void refuse(const toml::source_region& where, std::string_view what) {
  throw Error(ErrorCode::invalid_argument, fmt::format("line {}: {}", where.begin.line, what));
}

std::string text_of(std::string_view key, const toml::node& node) {
  const auto* const text = node.as_string();
  if (text == nullptr) refuse(node.source(), fmt::format("{} must be a text", key));
  return text->get();
}

void add_store(const toml::node& node, LocationList& stores) {
  const toml::table* const table = node.as_table();
  if (table == nullptr) refuse(node.source(), "stores must be a list of tables");
  std::optional<std::string> name;
  std::optional<std::string> url;
  for (auto&& [key, value] : *table) {
    if (key.str() == "name") {
      name = text_of("name", value);
    } else if (key.str() == "url") {
      url = text_of("url", value);
    } else {
      refuse(key.source(), fmt::format("unknown key {} of a store; there are name and url",
                                       printable_key(key.str())));
    }
  }
  if (!name) refuse(node.source(), "the name of a store is missing");
  if (!url) refuse(node.source(), "the url of a store is missing");
  try {
    stores.add(std::move(*name), std::move(*url));
  } catch (const Error& error) {
    refuse(node.source(), error.what());
  }
}

std::vector<StoreLocation> stores_of(const toml::table& document) {
  LocationList stores;
  for (auto&& [key, value] : document) {
    if (key.str() != "stores") {
      refuse(key.source(),
             fmt::format("unknown key {}; there is only stores", printable_key(key.str())));
    }
    const toml::array* const list = value.as_array();
    if (list == nullptr) refuse(value.source(), "stores must be a list of tables");
    for (const toml::node& node : *list) add_store(node, stores);
  }
  if (!document.contains("stores")) {
    throw Error(ErrorCode::invalid_argument,
                "it lists no stores; an empty list is written as stores = []");
  }
  return std::move(stores).take();
}

}  // namespace

std::vector<StoreLocation> parse_toml_stores(std::string_view text) {
  try {
    return stores_of(toml::parse(text));
  } catch (const toml::parse_error& error) {
    // Its own words may quote what stands there.
    refuse(error.source(), "this is not TOML");
  }
}

}  // namespace oncebox
