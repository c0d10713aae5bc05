#include "pg_session.hpp"

#include <libpq-fe.h>

#include <stdexcept>

namespace oncebox::bench {

namespace {

template <class Number>
std::string big_endian(Number number) {
  std::string bytes;
  const auto bits = static_cast<std::uint64_t>(number);
  for (int shift = 8 * (static_cast<int>(sizeof number) - 1); shift >= 0; shift -= 8) {
    bytes += static_cast<char>(bits >> shift & 0xff);
  }
  return bytes;
}

}  // namespace

std::string to_binary(std::int32_t number) { return big_endian(number); }
std::string to_binary(std::int64_t number) { return big_endian(number); }

BinaryArray::BinaryArray(std::uint32_t element) {
  // One dimension, no nulls, the type, the size (set by `take`), the first index.
  for (const std::uint32_t part : {1U, 0U, element, 0U, 1U}) bytes_ += big_endian(part);
}

void BinaryArray::add(std::string_view bytes) {
  bytes_ += to_binary(static_cast<std::int32_t>(bytes.size()));
  bytes_ += bytes;
  ++size_;
}

std::string BinaryArray::take() {
  constexpr std::size_t kSizePlace = 12;
  bytes_.replace(kSizePlace, 4, to_binary(size_));
  return std::move(bytes_);
}

void PgRows::Clear::operator()(pg_result* result) const noexcept { PQclear(result); }

int PgRows::count() const { return PQntuples(result_.get()); }

std::string_view PgRows::bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}

std::int64_t PgRows::bigint(int row, int column) const {
  std::uint64_t number = 0;
  for (const char byte : bytes(row, column)) {
    number = number << 8 | static_cast<unsigned char>(byte);
  }
  return static_cast<std::int64_t>(number);
}

void PgSession::Finish::operator()(pg_conn* connection) const noexcept { PQfinish(connection); }

PgSession::PgSession(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_.get()) != CONNECTION_OK) {
    throw std::runtime_error(PQerrorMessage(connection_.get()));
  }
  run("SET client_min_messages = error");
}

pg_result* PgSession::checked(pg_result* result) {
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return result;
  PQclear(result);
  throw std::runtime_error(PQerrorMessage(connection_.get()));
}

void PgSession::run(const std::string& sql) {
  PQclear(checked(PQexec(connection_.get(), sql.c_str())));
}

void PgSession::prepare(const std::string& name, const std::string& sql) {
  PQclear(checked(PQprepare(connection_.get(), name.c_str(), sql.c_str(), 0, nullptr)));
}

PgRows PgSession::execute(const std::string& name, std::span<const std::string> values) {
  std::vector<const char*> data;
  std::vector<int> lengths;
  const std::vector<int> formats(values.size(), 1);
  for (const std::string& value : values) {
    data.push_back(value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  return PgRows(
      checked(PQexecPrepared(connection_.get(), name.c_str(), static_cast<int>(values.size()),
                             data.data(), lengths.data(), formats.data(), 1)));
}

}  // namespace oncebox::bench
