#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>

#include "connection.hpp"
#include "oncebox/names.hpp"

namespace oncebox::sqlite {

/// The names of the topics, which have numbers in the narrow rows. A number, once given, stays.
/// Used by one thread at a time, as its connection is.
class TopicNames {
 public:
  explicit TopicNames(Connection& connection);

  /// Throws `corrupt` for a number that no topic has.
  [[nodiscard]] const Topic& name_of(std::int64_t number);

  void remember(std::int64_t number, const Topic& topic);
  void forget() noexcept { names_.clear(); }

 private:
  Statement find_;
  std::unordered_map<std::int64_t, Topic> names_;
};

/// The names, and new numbers for new topics. Used on the writer's thread only.
class TopicNumbers {
 public:
  explicit TopicNumbers(Connection& connection);

  /// The number of a topic; a new one gets the next.
  [[nodiscard]] std::int64_t number_of(const Topic& topic);
  [[nodiscard]] TopicNames& names() noexcept { return names_; }

  /// Must be called when something was rolled back: a number may have been taken back with it.
  void forget() noexcept;

 private:
  TopicNames names_;
  Statement find_;
  Statement insert_;
  std::unordered_map<Topic, std::int64_t> numbers_;
};

}  // namespace oncebox::sqlite
