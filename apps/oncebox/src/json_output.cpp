#include "json_output.hpp"

#include <boost/json.hpp>

namespace oncebox::app {
namespace {

struct ToJson {
  boost::json::value operator()(std::int64_t number) const { return number; }
  boost::json::value operator()(double number) const { return number; }
  boost::json::value operator()(bool flag) const { return flag; }
  boost::json::value operator()(const std::string& text) const {
    return boost::json::value(boost::json::string(text));
  }
  boost::json::value operator()(const RawJson& json) const { return boost::json::parse(json.text); }
};

}  // namespace

std::string json_object(const std::vector<JsonField>& fields) {
  boost::json::object object;
  for (const JsonField& field : fields) object[field.name()] = std::visit(ToJson{}, field.value());
  return boost::json::serialize(object);
}

std::string json_array(const std::vector<std::string>& texts) {
  boost::json::array array;
  for (const std::string& text : texts) array.emplace_back(text);
  return boost::json::serialize(array);
}

}  // namespace oncebox::app
