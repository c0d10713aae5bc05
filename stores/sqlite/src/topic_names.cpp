#include "topic_names.hpp"

#include "oncebox/error.hpp"

namespace oncebox::sqlite {

namespace {

// A sender that makes up a topic for each message must not fill the memory.
constexpr std::size_t kMaxRemembered = 10'000;

// What sorts behind every name that begins like this: no UTF-8 has a byte of 255.
std::string end_of(std::string_view stem) {
  std::string end(stem);
  end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return end;
}

}  // namespace

TopicNames::TopicNames(Connection& connection)
    : find_name_(connection.prepare("SELECT name FROM oncebox_topic WHERE id = ?1")),
      find_number_(connection.prepare("SELECT id FROM oncebox_topic WHERE name = ?1")),
      read_range_(connection.prepare(
          "SELECT id, name FROM oncebox_topic WHERE name >= ?1 AND name < ?2 ORDER BY name")),
      names_(kMaxRemembered),
      numbers_(kMaxRemembered) {}

const Topic& TopicNames::name_of(std::int64_t number) {
  if (const Topic* const known = names_.find(number)) return *known;
  const ResetLater reset(find_name_);
  if (!find_name_.bind(1, number).step()) {
    throw Error(ErrorCode::corrupt, "a message has a topic that is not stored");
  }
  names_.put(number, Topic(find_name_.text(0)));
  return *names_.find(number);
}

std::optional<std::int64_t> TopicNames::find(const std::string& name) {
  if (const std::int64_t* const known = numbers_.find(name)) return *known;
  const ResetLater reset(find_number_);
  if (!find_number_.bind(1, std::string_view(name)).step()) return std::nullopt;
  const std::int64_t number = find_number_.int64(0);
  numbers_.put(name, number);
  return number;
}

void TopicNames::remember(std::int64_t number, const Topic& topic) {
  names_.put(number, topic);
  numbers_.put(topic.str(), number);
}

void TopicNames::forget() noexcept {
  names_.clear();
  numbers_.clear();
}

TopicNames::Range::Range(TopicNames& names, std::string_view stem)
    : read_(names.read_range_), from_(stem), until_(end_of(stem)) {
  read_.bind(1, std::string_view(from_)).bind(2, std::string_view(until_));
}

TopicNames::Range::~Range() { read_.reset(); }

std::optional<TopicNames::Named> TopicNames::Range::next() {
  if (!read_.step()) return std::nullopt;
  return Named{.number = read_.int64(0), .name = read_.text(1)};
}

TopicNumbers::TopicNumbers(Connection& connection)
    : names_(connection),
      insert_(connection.prepare("INSERT INTO oncebox_topic (name) VALUES (?1) RETURNING id")) {}

std::int64_t TopicNumbers::number_of(const Topic& topic) {
  if (const std::optional<std::int64_t> known = names_.find(topic.str())) return *known;
  const ResetLater reset(insert_);
  if (!insert_.bind(1, std::string_view(topic.str())).step()) {
    throw Error(ErrorCode::internal, "a topic got no number");
  }
  const std::int64_t number = insert_.int64(0);
  names_.remember(number, topic);
  return number;
}

}  // namespace oncebox::sqlite
