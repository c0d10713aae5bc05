#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "connection.hpp"
#include "oncebox/names.hpp"

namespace oncebox::sqlite {

/// The numbers that stand for topics in the narrow rows. A number, once given, stays. Used on the
/// writer's thread only.
class TopicNames {
 public:
  explicit TopicNames(Connection& connection);
  ~TopicNames();
  TopicNames(const TopicNames&) = delete;
  TopicNames& operator=(const TopicNames&) = delete;

  /// The number of a topic; a new one gets the next.
  [[nodiscard]] std::int64_t number_of(const Topic& topic);
  /// Throws `corrupt` for a number that no topic has.
  [[nodiscard]] const std::string& name_of(std::int64_t number);

  /// Must be called when something was rolled back: a number may have been taken back with it.
  void forget() noexcept;

 private:
  void remember(std::int64_t number, const std::string& name);

  Connection& connection_;
  Statement find_number_;
  Statement find_name_;
  Statement insert_;
  std::unordered_map<std::string, std::int64_t> numbers_;
  std::unordered_map<std::int64_t, std::string> names_;
};

}  // namespace oncebox::sqlite
