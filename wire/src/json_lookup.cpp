#include "oncebox/wire/json_lookup.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>

#include "json_reader.hpp"

namespace oncebox::wire {

namespace {

// The next part of a pointer, which begins with a slash, without its escapes.
std::string cut_pointer_part(std::string_view& pointer) {
  pointer.remove_prefix(1);
  const std::size_t end = std::min(pointer.find('/'), pointer.size());
  std::string part;
  for (std::size_t i = 0; i < end; ++i) {
    if (pointer[i] != '~') {
      part += pointer[i];
    } else if (++i < end) {
      part += pointer[i] == '1' ? '/' : '~';
    }
  }
  pointer.remove_prefix(end);
  return part;
}

bool is_named(std::string_view quoted_name, std::string_view name) {
  const std::string_view inside = quoted_name.substr(1, quoted_name.size() - 2);
  if (inside.find('\\') == std::string_view::npos) return inside == name;
  return unescape(quoted_name) == name;
}

std::string_view member_named(std::string_view object, std::string_view name) {
  std::string_view found;
  for_each_member(object, [&](std::string_view quoted_name, std::string_view value) {
    if (is_named(quoted_name, name)) found = value;
  });
  return found;
}

std::string_view item_numbered(std::string_view array, std::string_view number) {
  std::uint64_t wanted = 0;
  const char* const last = number.data() + number.size();
  const auto [end, error] = std::from_chars(number.data(), last, wanted);
  const bool has_leading_zero = number.size() > 1 && number.front() == '0';
  if (error != std::errc() || end != last || has_leading_zero) return {};
  std::size_t place = skip_space(array, 1);
  for (std::uint64_t index = 0; array[place] != ']'; ++index) {
    const std::size_t value_end = skip_value(array, place);
    if (index == wanted) return array.substr(place, value_end - place);
    place = skip_space(array, value_end);
    if (array[place] == ',') place = skip_space(array, place + 1);
  }
  return {};
}

}  // namespace

JsonLookup::JsonLookup(std::string_view text) noexcept {
  if (!is_json(text, kMaxNesting)) return;
  const std::size_t begin = skip_space(text, 0);
  root_ = text.substr(begin, skip_value(text, begin) - begin);
}

std::optional<std::string> JsonLookup::find(std::string_view pointer) const {
  std::string_view value = root_;
  while (!value.empty() && !pointer.empty()) {
    const std::string part = cut_pointer_part(pointer);
    if (value.front() == '{') {
      value = member_named(value, part);
    } else if (value.front() == '[') {
      value = item_numbered(value, part);
    } else {
      value = {};
    }
  }
  if (value.empty() || value == "null" || value.front() == '{' || value.front() == '[') {
    return std::nullopt;
  }
  return value.front() == '"' ? unescape(value) : std::string(value);
}

}  // namespace oncebox::wire
