#include "topic_names.hpp"

#include <string_view>

#include "oncebox/error.hpp"

namespace oncebox::sqlite {

namespace {

// A sender that makes up a topic for each message must not fill the memory.
constexpr std::size_t kMaxRemembered = 10'000;

}  // namespace

TopicNames::TopicNames(Connection& connection)
    : find_(connection.prepare("SELECT name FROM oncebox_topic WHERE id = ?1")) {}

const Topic& TopicNames::name_of(std::int64_t number) {
  if (const auto known = names_.find(number); known != names_.end()) return known->second;
  const ResetLater reset(find_);
  if (!find_.bind(1, number).step()) {
    throw Error(ErrorCode::corrupt, "a message has a topic that is not stored");
  }
  remember(number, Topic(find_.text(0)));
  return names_.at(number);
}

void TopicNames::remember(std::int64_t number, const Topic& topic) {
  if (names_.size() >= kMaxRemembered) names_.clear();
  names_.insert_or_assign(number, topic);
}

TopicNumbers::TopicNumbers(Connection& connection)
    : names_(connection),
      find_(connection.prepare("SELECT id FROM oncebox_topic WHERE name = ?1")),
      insert_(connection.prepare("INSERT INTO oncebox_topic (name) VALUES (?1) RETURNING id")) {}

std::int64_t TopicNumbers::number_of(const Topic& topic) {
  if (const auto known = numbers_.find(topic); known != numbers_.end()) return known->second;
  const auto only_number = [&](Statement& statement) -> std::int64_t {
    const ResetLater reset(statement);
    return statement.bind(1, std::string_view(topic.str())).step() ? statement.int64(0) : 0;
  };
  std::int64_t number = only_number(find_);
  if (number == 0) number = only_number(insert_);
  if (numbers_.size() >= kMaxRemembered) numbers_.clear();
  numbers_.insert_or_assign(topic, number);
  names_.remember(number, topic);
  return number;
}

void TopicNumbers::forget() noexcept {
  numbers_.clear();
  names_.forget();
}

}  // namespace oncebox::sqlite
