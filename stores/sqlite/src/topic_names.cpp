#include "topic_names.hpp"

#include "oncebox/error.hpp"

namespace oncebox::sqlite {

namespace {

// A sender that makes up a topic for each message must not fill the memory.
constexpr std::size_t kMaxRemembered = 10'000;

}  // namespace

TopicNames::TopicNames(Connection& connection)
    : connection_(connection),
      find_number_(connection.prepare("SELECT id FROM oncebox_topic WHERE name = ?1")),
      find_name_(connection.prepare("SELECT name FROM oncebox_topic WHERE id = ?1")),
      insert_(connection.prepare("INSERT INTO oncebox_topic (name) VALUES (?1) RETURNING id")) {
  sqlite3_rollback_hook(
      connection.handle(), [](void* self) { static_cast<TopicNames*>(self)->forget(); }, this);
}

TopicNames::~TopicNames() { sqlite3_rollback_hook(connection_.handle(), nullptr, nullptr); }

std::int64_t TopicNames::number_of(const Topic& topic) {
  const std::string& name = topic.str();
  if (const auto known = numbers_.find(name); known != numbers_.end()) return known->second;
  const auto only_number = [&](Statement& statement) -> std::int64_t {
    const ResetLater reset(statement);
    return statement.bind(1, std::string_view(name)).step() ? statement.integer(0) : 0;
  };
  std::int64_t number = only_number(find_number_);
  if (number == 0) number = only_number(insert_);
  remember(number, name);
  return number;
}

const std::string& TopicNames::name_of(std::int64_t number) {
  if (const auto known = names_.find(number); known != names_.end()) return known->second;
  const ResetLater reset(find_name_);
  if (!find_name_.bind(1, number).step()) {
    throw Error(ErrorCode::corrupt, "a message has a topic that is not stored");
  }
  remember(number, std::string(find_name_.text(0)));
  return names_.at(number);
}

void TopicNames::remember(std::int64_t number, const std::string& name) {
  if (numbers_.size() >= kMaxRemembered) forget();
  numbers_.insert_or_assign(name, number);
  names_.insert_or_assign(number, name);
}

void TopicNames::forget() noexcept {
  numbers_.clear();
  names_.clear();
}

}  // namespace oncebox::sqlite
