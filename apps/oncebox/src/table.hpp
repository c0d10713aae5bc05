#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "output.hpp"

namespace oncebox::app {

enum class Align { left, right };
/// Whether a column gives way when a terminal is too narrow for the table.
enum class Shrinks { no, yes };

struct Column {
  std::string title;
  Align align = Align::left;
  Shrinks shrinks = Shrinks::no;
};

struct Cell {
  std::string text;  ///< any text: it is made printable
  Style style = Style::plain;
};

/// Rows under titles, for people. Columns are as wide as their widest cell; on a terminal those
/// that may shrink are cut until the table fits.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// One cell for each column.
  void add(std::vector<Cell> row);
  void print(Output& out) const;

 private:
  [[nodiscard]] std::vector<std::size_t> widths(const Output& out) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

/// Names and values below each other, for one thing in detail.
class Details {
 public:
  void add(std::string_view name, std::string_view value, Style style = Style::plain);
  void print(Output& out) const;

 private:
  struct Line {
    std::string name;
    Cell value;
  };
  std::vector<Line> lines_;
};

}  // namespace oncebox::app
