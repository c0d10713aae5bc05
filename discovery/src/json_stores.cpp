#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "oncebox/error.hpp"
#include "oncebox/internal/location_list.hpp"
#include "store_list.hpp"

namespace oncebox {
namespace {

namespace json = boost::json;

[[noreturn]] void refuse_json(const std::string& what) {
  throw Error(ErrorCode::invalid_argument, what);
}

/// The values have no lines any more; which of the list it is tells as much.
void add_json_store(const json::value& value, std::size_t place, LocationList& stores) {
  const auto refuse = [&](std::string_view what) {
    refuse_json(fmt::format("stores[{}]: {}", place, what));
  };
  const json::object* const object = value.if_object();
  if (object == nullptr) refuse("must be an object");
  std::optional<std::string> name;
  std::optional<std::string> url;
  for (const auto& [key, member] : *object) {
    const bool is_name = key == "name";
    if (!is_name && key != "url") {
      refuse(fmt::format("unknown key {}; there are name and url", printable_key(key)));
    }
    const json::string* const text = member.if_string();
    if (text == nullptr) refuse(fmt::format("{} must be a text", std::string_view(key)));
    (is_name ? name : url) = std::string(*text);
  }
  if (!name) refuse("the name is missing");
  if (!url) refuse("the url is missing");
  try {
    stores.add(std::move(*name), std::move(*url));
  } catch (const Error& error) {
    refuse(error.what());
  }
}

json::value parse_json(std::string_view text) {
  json::stream_parser parser;
  json::error_code error;
  const std::size_t read = parser.write_some(text.data(), text.size(), error);
  if (!error && read == text.size()) parser.finish(error);
  if (error || read != text.size()) {
    const auto line = 1 + std::count(text.begin(), text.begin() + std::ptrdiff_t(read), '\n');
    refuse_json(fmt::format("line {}: this is not JSON", line));
  }
  return parser.release();
}

}  // namespace

std::vector<StoreLocation> parse_json_stores(std::string_view text) {
  const json::value document = parse_json(text);
  const json::object* const object = document.if_object();
  if (object == nullptr) refuse_json("it must be an object with the list \"stores\"");
  LocationList stores;
  bool has_list = false;
  for (const auto& [key, value] : *object) {
    if (key != "stores") {
      refuse_json(fmt::format("unknown key {}; there is only stores", printable_key(key)));
    }
    const json::array* const list = value.if_array();
    if (list == nullptr) refuse_json("stores must be a list");
    has_list = true;
    for (std::size_t i = 0; i < list->size(); ++i) add_json_store((*list)[i], i, stores);
  }
  if (!has_list) refuse_json("it must be an object with the list \"stores\"");
  return std::move(stores).take();
}

std::string_view printable_key(std::string_view key) noexcept {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  constexpr std::size_t kLongest = 32;
  const bool shows = !key.empty() && key.size() <= kLongest && std::ranges::all_of(key, fits);
  return shows ? key : "(not shown)";
}

}  // namespace oncebox
