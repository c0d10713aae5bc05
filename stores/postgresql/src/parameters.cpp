#include "parameters.hpp"

#include <array>
#include <bit>
#include <utility>

namespace oncebox::postgresql {

namespace {

constexpr auto kSqlEpoch = std::chrono::sys_days{std::chrono::year{2000} / 1 / 1};

// The most significant byte comes first.
template <class Number>
std::array<char, sizeof(Number)> to_array(Number number) {
  std::array<char, sizeof(Number)> bytes{};
  auto bits = static_cast<std::uint64_t>(number);
  for (auto byte = bytes.rbegin(); byte != bytes.rend(); ++byte, bits >>= 8) {
    *byte = static_cast<char>(bits & 0xff);
  }
  return bytes;
}

template <class Number>
void append(std::string& bytes, Number number) {
  const auto array = to_array(number);
  bytes.append(array.data(), array.size());
}

template <class Number>
std::string to_bytes(Number number) {
  const auto array = to_array(number);
  return {array.data(), array.size()};
}

}  // namespace

std::int64_t to_sql_time(TimePoint time) noexcept {
  return std::chrono::microseconds(time - kSqlEpoch).count();
}

TimePoint from_sql_time(std::int64_t microseconds) noexcept {
  return std::chrono::floor<Duration>(kSqlEpoch + std::chrono::microseconds(microseconds));
}

ArrayValue::ArrayValue(SqlType element) {
  append(bytes_, std::int32_t{1});  // dimensions
  append(bytes_, std::int32_t{0});  // whether it has nulls; set by `take`
  append(bytes_, static_cast<std::uint32_t>(element));
  append(bytes_, std::int32_t{0});  // the size; set by `take`
  append(bytes_, std::int32_t{1});  // the first index
}

void ArrayValue::begin_element(std::size_t bytes) {
  append(bytes_, static_cast<std::int32_t>(bytes));
  ++size_;
}

void ArrayValue::add_null() {
  append(bytes_, std::int32_t{-1});
  ++size_;
  ++nulls_;
}

void ArrayValue::add(bool value) {
  begin_element(1);
  bytes_ += value ? '\1' : '\0';
}

void ArrayValue::add(std::int16_t value) {
  begin_element(sizeof value);
  append(bytes_, value);
}

void ArrayValue::add(std::int32_t value) {
  begin_element(sizeof value);
  append(bytes_, value);
}

void ArrayValue::add(std::int64_t value) {
  begin_element(sizeof value);
  append(bytes_, value);
}

void ArrayValue::add(std::string_view bytes) {
  begin_element(bytes.size());
  bytes_ += bytes;
}

void ArrayValue::add(const Uuid::Bytes& uuid) {
  begin_element(uuid.size());
  bytes_.append(uuid.begin(), uuid.end());
}

void ArrayValue::add(TimePoint time) { add(to_sql_time(time)); }

std::string ArrayValue::take() {
  constexpr std::size_t kNullsPlace = 4;
  constexpr std::size_t kSizePlace = 12;
  bytes_.replace(kNullsPlace, 4, to_bytes(std::int32_t{nulls_ > 0 ? 1 : 0}));
  bytes_.replace(kSizePlace, 4, to_bytes(static_cast<std::int32_t>(size_)));
  return std::move(bytes_);
}

Parameters& Parameters::add_null() {
  values_.emplace_back(std::nullopt);
  return *this;
}

Parameters& Parameters::add(bool value) {
  values_.emplace_back(std::string(1, value ? '\1' : '\0'));
  return *this;
}

Parameters& Parameters::add(std::int32_t value) {
  values_.emplace_back(to_bytes(value));
  return *this;
}

Parameters& Parameters::add(std::int64_t value) {
  values_.emplace_back(to_bytes(value));
  return *this;
}

Parameters& Parameters::add(std::string_view bytes) {
  values_.emplace_back(std::string(bytes));
  return *this;
}

Parameters& Parameters::add(const Uuid::Bytes& uuid) {
  values_.emplace_back(std::string(uuid.begin(), uuid.end()));
  return *this;
}

Parameters& Parameters::add(TimePoint time) { return add(to_sql_time(time)); }

Parameters& Parameters::add(ArrayValue array) {
  values_.emplace_back(array.take());
  return *this;
}

}  // namespace oncebox::postgresql
