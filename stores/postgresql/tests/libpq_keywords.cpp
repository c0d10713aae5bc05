#include "libpq_keywords.hpp"

#include <libpq-fe.h>

#include <memory>
#include <stdexcept>

namespace oncebox::postgresql {

LibpqKeywords read_libpq_url(const std::string& url) {
  const std::unique_ptr<PQconninfoOption, decltype(&PQconninfoFree)> parsed(
      PQconninfoParse(url.c_str(), nullptr), &PQconninfoFree);
  if (!parsed) throw std::invalid_argument("libpq cannot read the URL of the test's server");
  LibpqKeywords keywords;
  for (const PQconninfoOption* option = parsed.get(); option->keyword != nullptr; ++option) {
    if (option->val != nullptr) keywords[option->keyword] = option->val;
  }
  return keywords;
}

std::string to_connection_string(const LibpqKeywords& keywords) {
  std::string text;
  for (const auto& [keyword, value] : keywords) {
    text += keyword + "='";
    for (const char c : value) {
      if (c == '\'' || c == '\\') text += '\\';
      text += c;
    }
    text += "' ";
  }
  return text;
}

}  // namespace oncebox::postgresql
