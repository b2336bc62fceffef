package postgres

import (
	"database/sql"
	"encoding/binary"
	"reflect"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
)

// toStruct reads a row as pgx.RowToStructByName does, which finds anew for each result how
// every column is read. Which field a column is for, what cannot be read, and what is no plain text,
// number or truth value, pgx says here too.
func toStruct[T any](row pgx.CollectableRow) (T, error) {
	columns := row.FieldDescriptions()
	plan, err := planFor[T](columns)
	if err != nil {
		return *new(T), err
	}
	var value T
	into, raw := reflect.ValueOf(&value).Elem(), row.RawValues()
	var others []any // nil where the column is read already
	for i, f := range plan.fields {
		field := into.FieldByIndex(f.path)
		if f.read != nil && raw[i] != nil && f.read(raw[i], field) {
			continue
		}
		if others == nil {
			others = make([]any, len(columns))
		}
		others[i] = field.Addr().Interface()
	}
	if others == nil {
		return value, nil
	}
	return value, row.Scan(others...)
}

// rowPlan is how rows with these columns become a struct.
type rowPlan struct {
	columns []pgconn.FieldDescription
	fields  []plannedField // of each column
}

type plannedField struct {
	path []int
	// read puts a value that is not NULL into the field, or says that it cannot. It is nil where pgx reads.
	read func(raw []byte, field reflect.Value) bool
}

// plans has the plans of each type of struct, as a []*rowPlan: one for each way in which the
// statements of the program name its columns, so few.
var (
	plans   sync.Map
	newPlan sync.Mutex
)

func planFor[T any](columns []pgconn.FieldDescription) (*rowPlan, error) {
	of := reflect.TypeFor[T]()
	if known, _ := plans.Load(of); known != nil {
		for _, p := range known.([]*rowPlan) {
			if slices.EqualFunc(p.columns, columns, alike) {
				return p, nil
			}
		}
	}
	p := &rowPlan{columns: slices.Clone(columns), fields: make([]plannedField, len(columns))}
	asked := &targets{columns: p.columns}
	value, err := pgx.RowToAddrOfStructByName[T](asked)
	if err != nil {
		return nil, err
	}
	for i, target := range asked.of {
		field := reflect.ValueOf(target)
		path := pathTo(reflect.ValueOf(value).Elem(), field)
		p.fields[i] = plannedField{path, reader(columns[i], field.Type().Elem())}
	}
	newPlan.Lock()
	defer newPlan.Unlock()
	known, _ := plans.Load(of)
	before, _ := known.([]*rowPlan)
	plans.Store(of, append(slices.Clone(before), p))
	return p, nil
}

func alike(a, b pgconn.FieldDescription) bool {
	return a.Name == b.Name && a.DataTypeOID == b.DataTypeOID && a.Format == b.Format
}

// targets is a row that learns where pgx puts each column.
type targets struct {
	pgx.CollectableRow
	columns []pgconn.FieldDescription
	of      []any
}

func (t *targets) FieldDescriptions() []pgconn.FieldDescription { return t.columns }

func (t *targets) Scan(of ...any) error {
	t.of = of
	return nil
}

// pathTo gives the way from a struct to the field of it, or of a struct embedded in it, that the
// pointer is to.
func pathTo(of reflect.Value, pointer reflect.Value) []int {
	for i := range of.NumField() {
		field := of.Field(i)
		if field.Addr().Pointer() == pointer.Pointer() && field.Type() == pointer.Type().Elem() {
			return []int{i}
		}
		if of.Type().Field(i).Anonymous && field.Kind() == reflect.Struct {
			if rest := pathTo(field, pointer); rest != nil {
				return append([]int{i}, rest...)
			}
		}
	}
	return nil
}

// ownWays are what a type implements that says itself how it is read.
var ownWays = []reflect.Type{
	reflect.TypeFor[sql.Scanner](), reflect.TypeFor[pgtype.TextScanner](), reflect.TypeFor[pgtype.BytesScanner](),
	reflect.TypeFor[pgtype.BoolScanner](), reflect.TypeFor[pgtype.Int64Scanner](),
}

func reader(c pgconn.FieldDescription, field reflect.Type) func([]byte, reflect.Value) bool {
	if slices.ContainsFunc(ownWays, reflect.PointerTo(field).Implements) {
		return nil
	}
	isInt := field.Kind() >= reflect.Int && field.Kind() <= reflect.Int64
	switch {
	case field.Kind() == reflect.String && (c.DataTypeOID == pgtype.TextOID || c.DataTypeOID == pgtype.VarcharOID):
		return func(raw []byte, field reflect.Value) bool {
			field.SetString(string(raw))
			return true
		}
	case c.Format != pgx.BinaryFormatCode:
		return nil
	case field.Kind() == reflect.Bool && c.DataTypeOID == pgtype.BoolOID:
		return func(raw []byte, field reflect.Value) bool {
			field.SetBool(len(raw) == 1 && raw[0] == 1)
			return len(raw) == 1
		}
	case isInt && c.DataTypeOID == pgtype.Int8OID:
		return func(raw []byte, field reflect.Value) bool {
			return len(raw) == 8 && setInt(field, int64(binary.BigEndian.Uint64(raw)))
		}
	case isInt && c.DataTypeOID == pgtype.Int4OID:
		return func(raw []byte, field reflect.Value) bool {
			return len(raw) == 4 && setInt(field, int64(int32(binary.BigEndian.Uint32(raw))))
		}
	}
	return nil
}

func setInt(field reflect.Value, n int64) bool {
	if field.OverflowInt(n) {
		return false
	}
	field.SetInt(n)
	return true
}
