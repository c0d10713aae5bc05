#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "connection.hpp"
#include "oncebox/names.hpp"

namespace oncebox::sqlite {

/// A map that is full with so many entries: then each new one takes the place of another,
/// whichever that is. So what is asked for in turns that are longer than the map is still found now
/// and then.
template <class Key, class Value>
class BoundedMap {
 public:
  explicit BoundedMap(std::size_t max_entries) : max_entries_(max_entries) {}

  /// Null when it is not known. Valid until the next call.
  [[nodiscard]] const Value* find(const Key& key) const {
    const auto found = entries_.find(key);
    return found == entries_.end() ? nullptr : &found->second;
  }

  void put(const Key& key, Value value) {
    if (entries_.size() >= max_entries_ && !entries_.contains(key)) drop_one();
    entries_.insert_or_assign(key, std::move(value));
  }

  void clear() noexcept { entries_.clear(); }

 private:
  void drop_one() {
    do {
      bucket_ = (bucket_ + 1) % entries_.bucket_count();
    } while (entries_.bucket_size(bucket_) == 0);
    const Key dropped = entries_.begin(bucket_)->first;
    entries_.erase(dropped);
  }

  const std::size_t max_entries_;
  std::unordered_map<Key, Value> entries_;
  std::size_t bucket_ = 0;
};

/// The names of the topics, which have numbers in the narrow rows. A number, once given, stays.
/// Used by one thread at a time, as its connection is.
class TopicNames {
 public:
  explicit TopicNames(Connection& connection);

  /// Valid until the next call. Throws `corrupt` for a number that no topic has.
  [[nodiscard]] const Topic& name_of(std::int64_t number);
  /// Nothing when no message ever had this topic.
  [[nodiscard]] std::optional<std::int64_t> find(const std::string& name);

  /// A name and its number; the name is valid until the next step.
  struct Named {
    std::int64_t number = 0;
    std::string_view name;
  };
  /// Walks the names that begin with `stem`, which is not empty, in their order. One at a time.
  class Range {
   public:
    Range(TopicNames& names, std::string_view stem);
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
    [[nodiscard]] std::optional<Named> next();

   private:
    Statement& read_;
    const std::string from_;
    const std::string until_;
  };

  void remember(std::int64_t number, const Topic& topic);
  void forget() noexcept;

 private:
  Statement find_name_;
  Statement find_number_;
  Statement read_range_;
  BoundedMap<std::int64_t, Topic> names_;
  BoundedMap<std::string, std::int64_t> numbers_;
};

/// The names, and new numbers for new topics. Used on the writer's thread only.
class TopicNumbers {
 public:
  explicit TopicNumbers(Connection& connection);

  /// The number of a topic; a new one gets the next.
  [[nodiscard]] std::int64_t number_of(const Topic& topic);
  [[nodiscard]] TopicNames& names() noexcept { return names_; }

  /// Must be called when something was rolled back: a number may have been taken back with it.
  void forget() noexcept { names_.forget(); }

 private:
  TopicNames names_;
  Statement insert_;
};

}  // namespace oncebox::sqlite
