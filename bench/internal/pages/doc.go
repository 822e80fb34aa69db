// Package pages makes one HTML file of what the benchmark measured: settings, numbers and verdict, and charts of what
// happened when.
//
// A [Page] is made of sections, and a [Section] of facts, tables and charts. [Load], [Scenarios] and [Tune] make the pages
// of those three; anything else can make its own from [Curves], [Outcomes], [Histogram] and [Table], as the example of Curves does.
//
// The file stands alone. Styles, scripts and data are inside it, and a content security policy forbids it to fetch anything.
// Its size is bounded whatever was measured: charts show a number of rows and points at most, chosen by rules and not by
// chance, and say what they leave out.
//
// The charts are drawn by uPlot; see uplot/README.md.
package pages
